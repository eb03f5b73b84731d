package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxBody is how large a request's body may be. A command of 1 MiB fits, however
// it is escaped.
const maxBody = 8 << 20

// decode reads the properties of the JSON object in body. Names are
// case-sensitive. Unknown properties are ignored, but a known one may come only
// once: which of two commands is meant must not depend on who reads them. Text
// must be Unicode: a byte or a surrogate that stands for no character is refused,
// not replaced. A byte order mark before the object is ignored (RFC 8259, 8.1).
func decode(body []byte, known map[string]field) error {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if !utf8.Valid(body) {
		return invalid("body", "must be UTF-8")
	}
	if !json.Valid(body) {
		err := json.Unmarshal(body, new(json.RawMessage))
		return invalid("body", fmt.Sprintf("must be one JSON object: %v", err))
	}
	if loneSurrogate(body) {
		return invalid("body", "must not have half of a surrogate pair in a \\u escape")
	}
	if got := kind(bytes.TrimLeft(body, " \t\r\n")); got != "object" {
		return invalid("", "the body must be a JSON object, not "+got)
	}
	seen := make(map[string]bool, len(known))
	for name, value := range members(body) {
		key := unquote(name)
		read, ok := known[key]
		if !ok {
			continue
		}
		if seen[key] {
			return invalid(key, "must not be given twice")
		}
		seen[key] = true
		if problem := read(value); problem != "" {
			return invalid(key, problem)
		}
	}
	return nil
}

// invalid returns the 400 for a problem with one property of the request, or with
// the whole of it when name is empty.
func invalid(name, problem string) *Error {
	return &Error{Status: http.StatusBadRequest, Message: problem, field: name}
}

// missing returns the 400 for a string that must be there.
func missing(name string) *Error {
	return invalid(name, "Invalid input: expected string, received undefined")
}

// loneSurrogate reports whether text, which is valid JSON, has a \u escape of a
// surrogate that is not one of a pair (RFC 8259, 8.2).
func loneSurrogate(text []byte) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		i++
		if text[i] != 'u' {
			continue
		}
		unit := codeUnit(text[i+1:])
		i += 4
		switch {
		case unit >= 0xDC00 && unit < 0xE000:
			return true
		case unit >= 0xD800 && unit < 0xDC00:
			if text[i+1] != '\\' || text[i+2] != 'u' {
				return true
			}
			if low := codeUnit(text[i+3:]); low < 0xDC00 || low >= 0xE000 {
				return true
			}
			i += 6
		}
	}
	return false
}

// codeUnit returns the UTF-16 code unit that the first four hexadecimal digits of
// text give.
func codeUnit(text []byte) uint64 {
	unit, _ := strconv.ParseUint(string(text[:4]), 16, 16)
	return unit
}

// A field decodes the JSON value of one property, which is valid JSON and UTF-8. It
// returns the problem in words, or nothing.
type field func(json.RawMessage) (problem string)

// kind returns the name of a JSON value's type, as JSON Schema has it.
func kind(value []byte) string {
	switch value[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// into decodes a value of that kind, as encoding/json does. Of the right kind, only
// a number can be refused.
func into[T any](dst *T, want string) field {
	return func(value json.RawMessage) string {
		if got := kind(value); got != want {
			return fmt.Sprintf("Invalid input: expected %s, received %s", want, got)
		}
		if err := json.Unmarshal(value, dst); err != nil {
			return "is out of range"
		}
		return ""
	}
}

// intoString decodes a string.
func intoString(dst *string) field { return into(dst, "string") }

// intoBool decodes a boolean.
func intoBool(dst *bool) field { return into(dst, "boolean") }

// intoNumber decodes a number.
func intoNumber(dst *float64) field { return into(dst, "number") }

// intoChoice decodes one of the given words.
func intoChoice(dst *string, words ...string) field {
	return func(value json.RawMessage) string {
		problem := intoString(dst)(value)
		if problem == "" && !slices.Contains(words, *dst) {
			problem = oneOf(words)
		}
		return problem
	}
}

// oneOf says which words there are to choose from.
func oneOf(words []string) string { return "must be one of " + strings.Join(words, ", ") }

// intoCommand decodes shell text, of which there must be some.
func intoCommand(dst *string) field {
	return func(value json.RawMessage) string {
		if problem := intoString(dst)(value); problem != "" {
			return problem
		}
		if *dst == "" {
			return "Command cannot be empty"
		}
		return ""
	}
}

// intoInteger decodes a number without a fraction, from low to high.
func intoInteger(dst *int, low, high int) field {
	return func(value json.RawMessage) string {
		var n float64
		if problem := intoNumber(&n)(value); problem != "" {
			return problem
		}
		if n != math.Trunc(n) || n < float64(low) || n > float64(high) {
			return fmt.Sprintf("must be an integer from %d to %d", low, high)
		}
		*dst = int(n)
		return ""
	}
}

// intoStrings decodes an object of strings. Of two with the same name the last one
// counts, as in an environment.
func intoStrings(dst *map[string]string) field {
	return func(value json.RawMessage) string {
		if got := kind(value); got != "object" {
			return "Invalid input: expected object, received " + got
		}
		*dst = make(map[string]string)
		for name, member := range members(value) {
			var s string
			if problem := intoString(&s)(member); problem != "" {
				return strconv.Quote(unquote(name)) + ": " + problem
			}
			(*dst)[unquote(name)] = s
		}
		return ""
	}
}

// orNull decodes null as absence.
func orNull(read field) field {
	return func(value json.RawMessage) string {
		if kind(value) == "null" {
			return ""
		}
		return read(value)
	}
}

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
