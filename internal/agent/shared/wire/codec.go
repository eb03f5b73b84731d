package wire

import (
	"encoding/binary"
	"errors"
)

// errMalformed is what decoding anything but what encoding made ends with.
var errMalformed = errors.New("malformed message")

// A codec encodes into buf, or decodes from it, so that a message describes its
// fields once. An error stays; what is decoded after it is zero.
type codec struct {
	buf      []byte
	decoding bool
	err      error
}

func (c *codec) fail() { c.err, c.buf = errMalformed, nil }

func codeInt[T ~int | ~int32 | ~int64 | ~uint16 | ~uint32](c *codec, v *T) {
	if !c.decoding {
		c.buf = binary.AppendVarint(c.buf, int64(*v))
		return
	}
	n, size := binary.Varint(c.buf)
	if size <= 0 || int64(T(n)) != n {
		c.fail()
		return
	}
	*v, c.buf = T(n), c.buf[size:]
}

func (c *codec) bool(v *bool) {
	var n int
	if *v {
		n = 1
	}
	codeInt(c, &n)
	*v = n != 0
}

func codeString[T ~string](c *codec, v *T) {
	n := len(*v)
	codeInt(c, &n)
	if !c.decoding {
		c.buf = append(c.buf, *v...)
		return
	}
	if n < 0 || n > len(c.buf) {
		c.fail()
		return
	}
	*v, c.buf = T(c.buf[:n]), c.buf[n:]
}

// length codes how many elements follow. Every element takes a byte at least,
// so a length beyond what is left is refused before it is allocated.
func (c *codec) length(n int) int {
	codeInt(c, &n)
	if c.decoding && (n < 0 || n > len(c.buf)) {
		c.fail()
	}
	if c.err != nil {
		return 0
	}
	return n
}

func (c *codec) strings(v *[]string) {
	n := c.length(len(*v))
	if c.decoding && n > 0 {
		*v = make([]string, n)
	}
	for i := range *v {
		codeString(c, &(*v)[i])
	}
}
