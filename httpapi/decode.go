package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"unicode/utf8"
)

// maxBody is how large a request's body may be. A command of 1 MiB fits, however
// it is escaped.
const maxBody = 8 << 20

// A field decodes the JSON value of one property. Its error is the problem in
// words.
type field func(json.RawMessage) error

// decode reads the properties of the JSON object in body. Names are
// case-sensitive. Unknown properties are ignored, but a known one may come only
// once: which of two commands is meant must not depend on who reads them. Text
// must be Unicode: a byte or a surrogate that stands for no character is refused,
// not replaced.
func decode(body []byte, known map[string]field) error {
	if !utf8.Valid(body) {
		return invalid("body", "must be UTF-8")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return invalid("body", fmt.Sprintf("must be one JSON object: %v (at byte %d)", err, syntax.Offset))
		}
		return invalid("body", fmt.Sprintf("must be one JSON object: %v", err))
	}
	if loneSurrogate(body) {
		return invalid("body", "must not have half of a surrogate pair in a \\u escape")
	}
	if got := kind(bytes.TrimLeft(body, " \t\r\n")); got != "object" {
		return invalid("", "the body must be a JSON object, not "+got)
	}
	seen := make(map[string]bool, len(known))
	dec := json.NewDecoder(bytes.NewReader(body))
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		key, _ := name.(string)
		read, ok := known[key]
		if !ok {
			continue
		}
		if seen[key] {
			return invalid(key, "must not be given twice")
		}
		seen[key] = true
		if err := read(value); err != nil {
			return invalid(key, err.Error())
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

// expect refuses a value of another type than want.
func expect(want string, value json.RawMessage) error {
	if got := kind(value); got != want {
		return fmt.Errorf("Invalid input: expected %s, received %s", want, got)
	}
	return nil
}

// intoString decodes a string.
func intoString(dst *string) field {
	return func(value json.RawMessage) error {
		if err := expect("string", value); err != nil {
			return err
		}
		return json.Unmarshal(value, dst)
	}
}

// intoCommand decodes shell text, of which there must be some.
func intoCommand(dst *string) field {
	return func(value json.RawMessage) error {
		if err := intoString(dst)(value); err != nil {
			return err
		}
		if *dst == "" {
			return errors.New("Command cannot be empty")
		}
		return nil
	}
}

// intoBool decodes a boolean.
func intoBool(dst *bool) field {
	return func(value json.RawMessage) error {
		if err := expect("boolean", value); err != nil {
			return err
		}
		return json.Unmarshal(value, dst)
	}
}

// intoNumber decodes a number.
func intoNumber(dst *float64) field {
	return func(value json.RawMessage) error {
		if err := expect("number", value); err != nil {
			return err
		}
		n, err := strconv.ParseFloat(string(value), 64)
		if err != nil {
			return errors.New("is too large a number")
		}
		*dst = n
		return nil
	}
}

// intoInteger decodes a number without a fraction, from low to high.
func intoInteger(dst *int, low, high int) field {
	return func(value json.RawMessage) error {
		var n float64
		if err := intoNumber(&n)(value); err != nil {
			return err
		}
		if n != math.Trunc(n) || n < float64(low) || n > float64(high) {
			return fmt.Errorf("must be an integer from %d to %d", low, high)
		}
		*dst = int(n)
		return nil
	}
}

// intoStrings decodes an object of strings. Of two with the same name the last one
// counts, as in an environment.
func intoStrings(dst *map[string]string) field {
	return func(value json.RawMessage) error {
		if err := expect("object", value); err != nil {
			return err
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(value, &members); err != nil {
			return err
		}
		*dst = make(map[string]string, len(members))
		for name, member := range members {
			var s string
			if err := intoString(&s)(member); err != nil {
				return fmt.Errorf("%s: %w", strconv.Quote(name), err)
			}
			(*dst)[name] = s
		}
		return nil
	}
}

// orNull decodes null as absence.
func orNull(read field) field {
	return func(value json.RawMessage) error {
		if kind(value) == "null" {
			return nil
		}
		return read(value)
	}
}
