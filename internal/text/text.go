// Package text makes text of output bytes: UTF-8, with U+FFFD for what is not.
//
// What is replaced is each maximal subpart of an ill-formed sequence, as the
// Unicode Standard (section 3.9) recommends and browsers and Python do, so a
// client that decodes the raw bytes itself sees the same text.
package text

import "unicode/utf8"

const replacement = string(utf8.RuneError)

// A Decoder makes text of bytes that come in pieces. The strings it returns, put
// together, equal String of all the bytes. Its zero value is ready.
type Decoder struct {
	held [utf8.UTFMax]byte
	n    int
}

// Decode returns the text of p, with what was held back before it, and without a
// character at its end that further bytes may complete, which is held back.
func (d *Decoder) Decode(p []byte) string {
	if d.n > 0 {
		p = append(d.held[:d.n:d.n], p...)
	}
	whole := Whole(p)
	d.n = copy(d.held[:], p[whole:])
	return String(p[:whole])
}

// Held returns how many bytes are held back.
func (d *Decoder) Held() int { return d.n }

// Flush returns the text of what is held back: nothing more will come.
func (d *Decoder) Flush() string {
	s := String(d.held[:d.n])
	d.n = 0
	return s
}

// Whole returns the length of p without an unfinished character at its end. What
// can never become a character does not count as unfinished.
func Whole(p []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		end := p[len(p)-i:]
		if utf8.RuneStart(end[0]) {
			if !utf8.FullRune(end) {
				return len(p) - i
			}
			break
		}
	}
	return len(p)
}

// String returns p as text.
func String(p []byte) string {
	if utf8.Valid(p) {
		return string(p)
	}
	text := make([]byte, 0, len(p)+len(p)/8)
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r == utf8.RuneError && n == 1 {
			n = subpart(p)
			text = append(text, replacement...)
		} else {
			text = append(text, p[:n]...)
		}
		p = p[n:]
	}
	return string(text)
}

// subpart returns the length of the maximal subpart at the start of p, which is
// ill-formed: the longest beginning of it that could begin a character, or one
// byte.
func subpart(p []byte) int {
	n := 1
	if utf8.FullRune(p[:n]) {
		return n
	}
	for n < len(p) && !utf8.FullRune(p[:n+1]) {
		n++
	}
	return n
}
