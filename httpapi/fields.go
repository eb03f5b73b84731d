package httpapi

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

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
