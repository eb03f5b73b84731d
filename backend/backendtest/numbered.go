package backendtest

import "strconv"

// numbers makes the text of numbered lines piece by piece.
type numbers struct {
	at, end int
	buf     []byte
}

// numbered returns the lines 1 to n.
func numbered(n int) *numbers { return &numbers{end: n} }

// next returns the next few thousand bytes, whole lines, valid until the next
// call; nothing at the end.
func (r *numbers) next() []byte {
	r.buf = r.buf[:0]
	for r.at < r.end && len(r.buf) < 16<<10 {
		r.at++
		r.buf = append(strconv.AppendInt(r.buf, int64(r.at), 10), '\n')
	}
	return r.buf
}

// all returns all that is left.
func (r *numbers) all() string {
	var all []byte
	for {
		chunk := r.next()
		if len(chunk) == 0 {
			return string(all)
		}
		all = append(all, chunk...)
	}
}
