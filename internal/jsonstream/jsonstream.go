// Package jsonstream writes JSON documents that have much output in them: piece by
// piece, from where the output is kept. encoding/json would hold the whole document,
// and its escaped strings several times.
package jsonstream

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"reflect"
	"strings"

	"github.com/sandbox-go/sandbox/internal/text"
)

// PieceSize is how much is written at once. A client that takes so much makes progress.
const PieceSize = 32 << 10

// Text is output, which becomes a JSON string: text, as package text makes it.
type Text []byte

// MarshalJSON returns the string as a whole.
func (t Text) MarshalJSON() ([]byte, error) {
	quoted, _ := text.AppendJSON([]byte{'"'}, t, 6*len(t))
	return append(quoted, '"'), nil
}

// Write writes the JSON of v to w: what a json.Encoder writes that leaves <, > and &
// as they are, without the newline. Structs are written field by field; a Text and
// a []byte in them, and in what they hold, are never held as a whole.
func Write(w io.Writer, v any) error {
	b := &writer{w: w, buf: make([]byte, 0, PieceSize)}
	b.value(reflect.ValueOf(v))
	return b.flush()
}

// A writer gathers pieces. The first error sticks.
type writer struct {
	w   io.Writer
	buf []byte
	err error
}

func (b *writer) flush() error {
	if len(b.buf) > 0 && b.err == nil {
		_, b.err = b.w.Write(b.buf)
	}
	b.buf = b.buf[:0]
	return b.err
}

// Write is for what writes itself.
func (b *writer) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), cap(b.buf)-len(b.buf))
		b.buf = append(b.buf, rest[:n]...)
		rest = rest[n:]
		if len(b.buf) == cap(b.buf) && b.flush() != nil {
			return 0, b.err
		}
	}
	return len(p), b.err
}

func (b *writer) string(s string) { _, _ = io.WriteString(b, s) }

func (b *writer) value(v reflect.Value) {
	for v.IsValid() && (v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer) && !v.IsNil() {
		if b.special(v) {
			return
		}
		v = v.Elem()
	}
	switch {
	case b.err != nil || b.special(v):
	case v.IsValid() && v.Kind() == reflect.Struct && !v.Type().Implements(reflect.TypeFor[json.Marshaler]()):
		b.object(v)
	default:
		b.rest(v)
	}
}

// special writes v if it is of a type that is written in pieces.
func (b *writer) special(v reflect.Value) bool {
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return false
	}
	switch v := v.Interface().(type) {
	case Text:
		b.text(v)
	case []byte:
		b.string(`"`)
		enc := base64.NewEncoder(base64.StdEncoding, b)
		_, _ = enc.Write(v)
		_ = enc.Close()
		b.string(`"`)
	default:
		return false
	}
	return true
}

func (b *writer) text(t Text) {
	b.string(`"`)
	for len(t) > 0 && b.err == nil {
		if cap(b.buf)-len(b.buf) < 6 {
			_ = b.flush()
		}
		var n int
		b.buf, n = text.AppendJSON(b.buf, t, cap(b.buf)-len(b.buf))
		t = t[n:]
		if len(t) > 0 {
			_ = b.flush()
		}
	}
	b.string(`"`)
}

// object writes a struct's exported fields by their tags.
func (b *writer) object(v reflect.Value) {
	separator := "{"
	for field := range v.Type().Fields() {
		if !field.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		value := v.FieldByIndex(field.Index)
		if options == "omitempty" && empty(value) || options == "omitzero" && value.IsZero() {
			continue
		}
		b.string(separator + `"` + name + `":`)
		b.value(value)
		separator = ","
	}
	if separator == "{" {
		b.string("{")
	}
	b.string("}")
}

// empty is what encoding/json takes for it.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String, reflect.Array:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// rest writes what is small.
func (b *writer) rest(v reflect.Value) {
	var value any
	if v.IsValid() {
		value = v.Interface()
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil && b.err == nil {
		b.err = err
		return
	}
	_, _ = b.Write(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}
