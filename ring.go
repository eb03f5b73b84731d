package sandbox

// A ring holds the last bytes of a stream, up to a limit. Its memory grows with
// what it holds.
type ring struct {
	limit int
	buf   []byte // len is a power-of-two multiple of ringMin, at most limit
	end   int64  // bytes ever written
	n     int    // of these, how many are held
}

const ringMin = 4 << 10

// start returns the offset of the first byte held.
func (r *ring) start() int64 { return r.end - int64(r.n) }

// write appends p; the oldest bytes give way.
func (r *ring) write(p []byte) {
	if drop := len(p) - r.limit; drop > 0 {
		r.end += int64(drop)
		r.n = 0
		p = p[drop:]
	}
	r.grow(min(r.n+len(p), r.limit))
	for len(p) > 0 {
		n := copy(r.buf[r.end%int64(len(r.buf)):], p)
		r.end += int64(n)
		r.n = min(r.n+n, len(r.buf))
		p = p[n:]
	}
}

// grow makes room for n bytes.
func (r *ring) grow(n int) {
	if n <= len(r.buf) {
		return
	}
	size := max(len(r.buf), ringMin)
	for size < n {
		size *= 2
	}
	old := *r
	r.buf = make([]byte, min(size, r.limit))
	for off := old.start(); off < r.end; {
		p := old.slice(off, r.end)
		for len(p) > 0 {
			n := copy(r.buf[off%int64(len(r.buf)):], p)
			off += int64(n)
			p = p[n:]
		}
	}
}

// slice returns held bytes from off on, at most to end: those that lie together.
// They are valid until the next write.
func (r *ring) slice(off, end int64) []byte {
	at := int(off % int64(len(r.buf)))
	return r.buf[at:min(at+int(end-off), len(r.buf))]
}

// appendTo appends the held bytes of [off, end) to p.
func (r *ring) appendTo(p []byte, off, end int64) []byte {
	for off < end {
		s := r.slice(off, end)
		p = append(p, s...)
		off += int64(len(s))
	}
	return p
}
