package jsonstream_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox/internal/jsonstream"
	"github.com/sandbox-go/sandbox/internal/text"
)

// encode is what Write must write.
func encode(t testing.TB, v any) string {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(buf.String(), "\n")
}

func write(t testing.TB, v any) string {
	t.Helper()
	var buf bytes.Buffer
	if err := jsonstream.Write(&buf, v); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func TestWritesWhatEncodingJSONWrites(t *testing.T) {
	type inner struct {
		Out  jsonstream.Text `json:"out"`
		Tail jsonstream.Text `json:"tail,omitempty"`
		Code *int            `json:"code"`
	}
	code := 3
	for name, v := range map[string]any{
		"nil": nil, "string": "a<b>&\u2028", "map": map[string]int{"b": 1, "a": 2}, "pointer": (*inner)(nil),
		"struct": struct {
			A inner          `json:"a"`
			B any            `json:"b"`
			C time.Time      `json:"c"`
			D []byte         `json:"d"`
			E string         `json:"e,omitempty"`
			F json.Number    `json:"f,omitempty"`
			G map[string]int `json:"g,omitzero"`
			H *inner         `json:"h"`
			I float64
			j int
		}{
			A: inner{Out: jsonstream.Text("x\x00\"\\\n<é\xff"), Code: &code}, B: inner{}, C: time.Unix(1, 2).UTC(), D: []byte("hello"), H: &inner{Tail: jsonstream.Text("t")},
		},
		"empty": struct{}{},
	} {
		if got, want := write(t, v), encode(t, v); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// However large the output is, no write is larger than a client takes at once, and
// what is allocated for it is a buffer.
func TestWritesInPieces(t *testing.T) {
	out := make(jsonstream.Text, 16<<20)
	var most int
	sink := writerFunc(func(p []byte) (int, error) {
		most = max(most, len(p))
		return len(p), nil
	})
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if err := jsonstream.Write(sink, struct{ Out jsonstream.Text }{out}); err != nil {
				b.Fatal(err)
			}
		}
	})
	if most > 32<<10 || result.AllocedBytesPerOp() > 64<<10 {
		t.Errorf("wrote up to %d bytes at once, allocated %d", most, result.AllocedBytesPerOp())
	}
}

func TestStopsAtTheFirstError(t *testing.T) {
	writes := 0
	err := jsonstream.Write(writerFunc(func([]byte) (int, error) { writes++; return 0, io.ErrClosedPipe }), jsonstream.Text(make([]byte, 1<<20)))
	if err != io.ErrClosedPipe || writes != 1 {
		t.Errorf("got %v after %d writes, want %v after one", err, writes, io.ErrClosedPipe)
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte("a\x00\x1f\x7f\"\\/\b\f\n\r\t<>&\u2028\u2029€😀\xff\xe2\x82\xf0\x9f\x98"), uint8(0))
	f.Fuzz(func(t *testing.T, p []byte, limit uint8) {
		want := encode(t, text.String(p))
		if got := write(t, jsonstream.Text(p)); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		// In pieces at whole characters, as event streams have it.
		most := int(limit) + 6
		pieces := []byte{'"'}
		for rest := p; len(rest) > 0; {
			piece, n := text.AppendJSON(nil, rest, most)
			if n == 0 || len(piece) > most {
				t.Fatalf("took %d bytes, made %d of at most %d", n, len(piece), most)
			}
			pieces, rest = append(pieces, piece...), rest[n:]
		}
		if got := string(append(pieces, '"')); got != want {
			t.Fatalf("pieces make %s, want %s", got, want)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
