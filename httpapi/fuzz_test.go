package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sandbox-go/sandbox/backend/fake"
	"github.com/sandbox-go/sandbox/internal/text"
)

// FuzzBody holds what the handlers make of a body against encoding/json: what runs
// is the one command that any reader of the body would see, and what is refused is
// refused in JSON.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"command":"echo hi"}`, `{"command":"a","command":"b"}`, `{"COMMAND":"a"}`, `{"command":"\ud83d\ude00"}`, `{"command":"\ud83d"}`,
		`{"command":"\\ud83d","env":{"A":"b"},"timeout_ms":1e3,"cwd":"/","stream":false}`, `[]`, `null`, ``, `{`, `{"command":1}`, "{\"command\":\"\xff\"}",
		`{"command":"a"} x`, `{"x":{"command":"b"},"command":"a"}`, `{"comm\u0061nd":"a"}`, `{"command":"a","timeout_ms":-0.0}`, `{"command":"a","background":true,"open_stdin":true}`, `{"command":"` + "\u2028" + `"}`,
	} {
		f.Add([]byte(seed))
	}
	var started []string // by the request at hand
	w := start(f, func(w *testServer) {
		w.fake.Start = func(_ context.Context, cmd *fake.Command) error {
			started = append(started, cmd.Shell)
			return nil
		}
	})
	id := w.sandbox(f, "a")
	handler := w.api.Sandboxes()
	f.Fuzz(func(t *testing.T, body []byte) {
		started = nil
		r := httptest.NewRequest("POST", "/v1/sandboxes/"+id+"/exec", bytes.NewReader(body))
		r.Header.Set("Authorization", "Bearer key-a")
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		if rec.Header().Get("Content-Type") == "text/event-stream" {
			newEventReader(rec.Body).all(t)
		} else if !json.Valid(rec.Body.Bytes()) {
			t.Fatalf("answer is not JSON: %q", rec.Body)
		}
		switch rec.Code {
		case http.StatusOK, http.StatusAccepted:
			var seen map[string]any
			if err := json.Unmarshal(body, &seen); err != nil {
				t.Fatalf("ran %q of a body that is malformed: %v", started, err)
			}
			if len(started) != 1 || started[0] != seen["command"] {
				t.Errorf("ran %q, the body says %q", started, seen["command"])
			}
			if !utf8.Valid(body) {
				t.Error("ran a body that is not UTF-8")
			}
		case http.StatusBadRequest:
			if len(started) != 0 {
				t.Errorf("refused, but ran %q", started)
			}
		default:
			t.Errorf("status %d: %s", rec.Code, rec.Body)
		}
	})
}

// FuzzStream has a command write any bytes in any pieces, and reads the events
// back: the chunks put together are the output as text, and each is whole.
func FuzzStream(f *testing.F) {
	f.Add([]byte("hello\n"), []byte("\xe2\x82\xac"), uint8(1))
	f.Add([]byte("\n\nevent: exit\ndata: {}\n\n"), []byte("\r\n: ping\r"), uint8(3))
	f.Add([]byte("\xff\xe2\x82"), []byte{0, 0x80}, uint8(2))
	f.Add([]byte("\u2028\u2029<&>\\\"\x7f"), []byte{}, uint8(200))
	w := start(f, nil)
	var say fake.Handler // of the request at hand
	w.backend.Handle("say it", func(p *fake.Process) int { return say(p) })
	id := w.sandbox(f, "a")
	handler := w.api.Sandboxes()
	f.Fuzz(func(t *testing.T, stdout, stderr []byte, piece uint8) {
		say = func(p *fake.Process) int {
			size := int(piece) + 1
			for out, err := stdout, stderr; len(out)+len(err) > 0; {
				n, m := min(size, len(out)), min(size, len(err))
				p.Stdout.Write(out[:n])
				p.Stderr.Write(err[:m])
				out, err = out[n:], err[m:]
			}
			return 0
		}
		r := httptest.NewRequest("POST", "/v1/sandboxes/"+id+"/exec", strings.NewReader(streamBody))
		r.Header.Set("Authorization", "Bearer key-a")
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		events := newEventReader(rec.Body).all(t)
		if n := len(events); n < 2 || events[0].name != "start" || events[n-1].name != "exit" {
			t.Fatalf("events: %v", events)
		}
		for _, e := range events[1 : len(events)-1] {
			if e.name != "stdout" && e.name != "stderr" {
				t.Errorf("event %v in the middle", e)
			}
		}
		var record struct{ Stdout, Stderr string }
		if err := json.Unmarshal([]byte(events[len(events)-1].data), &record); err != nil {
			t.Fatal(err)
		}
		for _, s := range []struct {
			name, stored string
			written      []byte
		}{{"stdout", record.Stdout, stdout}, {"stderr", record.Stderr, stderr}} {
			want := text.String(s.written)
			if got := textOf(t, events, s.name); got != want || s.stored != want {
				t.Errorf("%s: chunks %q, record %q, want %q", s.name, got, s.stored, want)
			}
		}
	})
}
