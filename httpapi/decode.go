package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
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
