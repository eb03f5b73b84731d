package text

import "unicode/utf8"

// AppendJSON appends to dst what a JSON string of String(p) has between its quotes,
// as a json.Encoder that leaves <, > and & as they are writes it. It stops before
// more than limit bytes would be appended, at a character's end, and returns how
// many bytes of p it has told: limit must have room for one, 6 bytes.
func AppendJSON(dst, p []byte, limit int) ([]byte, int) {
	end := len(dst) + limit
	at := 0
	for at < len(p) {
		if n := plain(p[at:min(len(p), at+end-len(dst))]); n > 0 {
			dst = append(dst, p[at:at+n]...)
			at += n
			continue
		}
		var (
			escape [6]byte
			told   []byte
			n      = 1
		)
		switch b := p[at]; {
		case b == '"' || b == '\\':
			told = append(escape[:0], '\\', b)
		case b == '\b':
			told = append(escape[:0], `\b`...)
		case b == '\f':
			told = append(escape[:0], `\f`...)
		case b == '\n':
			told = append(escape[:0], `\n`...)
		case b == '\r':
			told = append(escape[:0], `\r`...)
		case b == '\t':
			told = append(escape[:0], `\t`...)
		case b < ' ':
			told = append(escape[:0], '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		case b < utf8.RuneSelf:
			told = append(escape[:0], b)
		default:
			var r rune
			r, n = utf8.DecodeRune(p[at:])
			switch {
			case r == utf8.RuneError && n == 1:
				n = subpart(p[at:])
				told = append(escape[:0], replacement...)
			case r == '\u2028' || r == '\u2029': // JavaScript took them for newlines once
				told = append(escape[:0], '\\', 'u', '2', '0', '2', hex[r&15])
			default:
				told = append(escape[:0], p[at:at+n]...)
			}
		}
		if len(dst)+len(told) > end {
			break
		}
		dst = append(dst, told...)
		at += n
	}
	return dst, at
}

const hex = "0123456789abcdef"

// plain returns how many bytes at the start of p are ASCII that JSON has as it is.
func plain(p []byte) int {
	for i, b := range p {
		if b < ' ' || b >= utf8.RuneSelf || b == '"' || b == '\\' {
			return i
		}
	}
	return len(p)
}
