package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
)

// maxValues bounds how many values a body has, at any depth. Who sends more does not
// describe a command.
const maxValues = 1 << 16

var errTooManyValues = invalid("body", fmt.Sprintf("must not have more than %d values", maxValues))

// A valueCounter reads JSON, and fails once it has had too many values: before more of
// it is kept.
type valueCounter struct {
	r       io.Reader
	values  int
	quoted  bool // within a string
	escaped bool // behind a backslash
}

func (c *valueCounter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	for _, b := range p[:n] {
		switch {
		case c.escaped:
			c.escaped = false
		case b == '"':
			c.quoted = !c.quoted
		case c.quoted:
			c.escaped = b == '\\'
		case b == ',' || b == '[' || b == '{':
			c.values++
		}
	}
	if c.values > maxValues {
		return n, errTooManyValues
	}
	return n, err
}

// members returns the names, still quoted, and the values of an object, which is valid
// JSON.
func members(object []byte) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func(name []byte, value json.RawMessage) bool) {
		rest := space(space(object)[1:]) // behind the brace
		for rest[0] != '}' {
			name := rest[:valueEnd(rest)]
			rest = space(space(rest[len(name):])[1:]) // behind the colon
			value := rest[:valueEnd(rest)]
			if !yield(name, value) {
				return
			}
			rest = space(rest[len(value):])
			if rest[0] == ',' {
				rest = space(rest[1:])
			}
		}
	}
}

// space returns p without white space before it.
func space(p []byte) []byte { return bytes.TrimLeft(p, " \t\r\n") }

// valueEnd returns the length of the value that p begins with.
func valueEnd(p []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(p); i++ {
		switch b := p[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
			if !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case b == '{' || b == '[':
			depth++
		case (b == '}' || b == ']') && depth > 0:
			if depth--; depth == 0 {
				return i + 1
			}
		case depth == 0 && bytes.IndexByte([]byte(",:]} \t\r\n"), b) >= 0:
			return i
		}
	}
	return len(p)
}

// unquote returns the text of a string in JSON.
func unquote(name []byte) string {
	if bytes.IndexByte(name, '\\') < 0 {
		return string(name[1 : len(name)-1])
	}
	var s string
	_ = json.Unmarshal(name, &s) // it is valid
	return s
}
