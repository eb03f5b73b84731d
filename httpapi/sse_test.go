package httpapi_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-go/sandbox/backend/fake"
)

// An event is one that an event stream has dispatched; a comment has a name of ":".
type event struct{ name, data string }

// An eventReader reads an event stream by the letter of the WHATWG HTML standard,
// section 9.2.6, and notes the comments too.
type eventReader struct {
	r  *bufio.Reader
	id string // the last event's
}

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{r: bufio.NewReader(r)}
}

// line returns the next line without its end, which is CRLF, LF or CR.
func (e *eventReader) line() (string, error) {
	var line []byte
	for {
		b, err := e.r.ReadByte()
		if err != nil {
			return "", err
		}
		switch b {
		case '\r':
			if next, err := e.r.Peek(1); err == nil && next[0] == '\n' {
				e.r.Discard(1)
			}
			return string(line), nil
		case '\n':
			return string(line), nil
		}
		line = append(line, b)
	}
}

// next returns the next event or comment. An event that is cut off is not
// dispatched.
func (e *eventReader) next() (event, error) {
	var name string
	var data []string
	for {
		line, err := e.line()
		if err != nil {
			return event{}, err
		}
		if !utf8.ValidString(line) {
			return event{}, fmt.Errorf("line is not UTF-8: %q", line)
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && data != nil:
			return event{name, strings.Join(data, "\n")}, nil
		case line == "":
			name = ""
		case field == "":
			return event{":", value}, nil
		case field == "event":
			name = value
		case field == "id":
			e.id = value
		case field == "data":
			data = append(data, value)
		default:
			return event{}, fmt.Errorf("unknown field: %q", line)
		}
	}
}

// all returns the events and comments up to the end.
func (e *eventReader) all(t testing.TB) []event {
	t.Helper()
	var events []event
	for {
		ev, err := e.next()
		if err == io.EOF {
			return events
		}
		if err != nil {
			t.Errorf("read the events: %v", err)
			return events
		}
		events = append(events, ev)
	}
}

// open begins a stream of owner a, which must be answered with 200.
func (w *testServer) open(t testing.TB, id, body string) (*http.Response, *eventReader) {
	t.Helper()
	resp, err := w.client.Do(request(t.Context(), t, "POST", "/v1/sandboxes/"+id+"/exec", body))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %s", resp.Status)
	}
	return resp, newEventReader(resp.Body)
}

// diffEvents compares events, whose data is JSON as diffJSON has it.
func diffEvents(t *testing.T, want, got []event) {
	t.Helper()
	names := func(events []event) (names []string) {
		for _, e := range events {
			names = append(names, e.name)
		}
		return names
	}
	if diff := cmp.Diff(names(want), names(got)); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	for i := range want {
		if want[i].name != ":" {
			diffJSON(t, want[i].data, got[i].data)
		}
	}
}

// textOf puts the chunks of one output stream together.
func textOf(t testing.TB, events []event, name string) string {
	t.Helper()
	var all strings.Builder
	for _, e := range events {
		if e.name == name {
			var chunk struct{ Data string }
			if err := json.Unmarshal([]byte(e.data), &chunk); err != nil {
				t.Fatal(err)
			}
			if chunk.Data == "" {
				t.Errorf("an empty %s event", name)
			}
			all.WriteString(chunk.Data)
		}
	}
	return all.String()
}

const (
	startEvent = `{"id":"*","sandbox_id":"*"}`
	streamBody = `{"command":"say it","stream":true}`
)

func exitEvent(status, code string) string {
	return `{"object":"execution","status":"` + status + `","exit_code":` + code + `,"*":0}`
}

func TestStream(t *testing.T) {
	inBubble(t, "events-and-headers", func(t *testing.T) {
		w := start(t, nil)
		w.backend.Handle("say it", func(p *fake.Process) int {
			io.WriteString(p.Stdout, "out\n")
			p.Sleep(time.Second)
			io.WriteString(p.Stderr, "err\n")
			return 7
		})
		id := w.sandbox(t, "a")
		resp, events := w.open(t, id, streamBody)
		for name, want := range map[string]string{
			"Content-Type":      "text/event-stream",
			"Cache-Control":     "no-cache, no-transform",
			"X-Accel-Buffering": "no",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
		got := events.all(t)
		diffEvents(t, []event{
			{"start", startEvent},
			{"stdout", `{"data":"out\n"}`},
			{"stderr", `{"data":"err\n"}`},
			{"exit", exitEvent("completed", "7")},
		}, got)
		var first struct {
			ID        string `json:"id"`
			SandboxID string `json:"sandbox_id"`
		}
		if err := json.Unmarshal([]byte(got[0].data), &first); err != nil {
			t.Fatal(err)
		}
		if first.SandboxID != id {
			t.Errorf("sandbox_id = %q, want %q", first.SandboxID, id)
		}
		_, record := w.do(t, "GET", "/v1/sandboxes/"+id+"/executions/"+first.ID, "")
		if record := strings.TrimSuffix(record, "\n"); record != got[3].data {
			t.Errorf("the exit event is %s, the record %s", got[3].data, record)
		}
	})

	inBubble(t, "arrives-as-it-is-written", func(t *testing.T) {
		w := start(t, nil)
		w.backend.Handle("say it", func(p *fake.Process) int {
			for range 3 {
				io.WriteString(p.Stdout, "x")
				p.Sleep(time.Second)
			}
			return 0
		})
		_, events := w.open(t, w.sandbox(t, "a"), streamBody)
		began := time.Now()
		var at []time.Duration
		for {
			if _, err := events.next(); err != nil {
				break
			}
			at = append(at, time.Since(began))
		}
		if diff := cmp.Diff([]time.Duration{0, 0, time.Second, 2 * time.Second, 3 * time.Second}, at); diff != "" {
			t.Errorf("events arrived at (-want +got):\n%s", diff)
		}
	})

	inBubble(t, "a-character-in-two-writes-is-whole", func(t *testing.T) {
		w := start(t, nil)
		w.backend.Handle("say it", func(p *fake.Process) int {
			io.WriteString(p.Stdout, "\xe2")
			p.Sleep(time.Second)
			io.WriteString(p.Stderr, "\xf0\x9f")
			io.WriteString(p.Stdout, "\x82\xac")
			return 0
		})
		_, events := w.open(t, w.sandbox(t, "a"), streamBody)
		diffEvents(t, []event{
			{"start", startEvent},
			{"stdout", `{"data":"€"}`},
			{"stderr", `{"data":"` + "\uFFFD" + `"}`},
			{"exit", exitEvent("completed", "0")},
		}, events.all(t))
	})

	inBubble(t, "output-like-the-protocol-is-data", func(t *testing.T) {
		w := start(t, nil)
		const hostile = "\n\nevent: exit\ndata: {}\n\n\r\n\r\n: ping\r: x\u2028\x00<&>"
		w.backend.Handle("say it", func(p *fake.Process) int { io.WriteString(p.Stdout, hostile); return 0 })
		_, events := w.open(t, w.sandbox(t, "a"), streamBody)
		got := events.all(t)
		if text := textOf(t, got, "stdout"); text != hostile {
			t.Errorf("stdout = %q, want %q", text, hostile)
		}
		if !strings.Contains(got[1].data, "<&>") {
			t.Errorf("escaped without need: %s", got[1].data)
		}
		if last := got[len(got)-1]; len(got) != 3 || last.name != "exit" {
			t.Errorf("events: %v", got)
		}
	})

	inBubble(t, "output-past-the-cap-is-live-and-not-stored", func(t *testing.T) {
		w := start(t, nil)
		_, events := w.open(t, w.sandbox(t, "a"), `{"command":"print 3 MiB","stream":true}`)
		got := events.all(t)
		if text := textOf(t, got, "stdout"); text != strings.Repeat("€", 1<<20) {
			t.Errorf("stdout has %d bytes, or others than were printed", len(text))
		}
		var record struct {
			Stdout    string
			Truncated bool
		}
		if err := json.Unmarshal([]byte(got[len(got)-1].data), &record); err != nil {
			t.Fatal(err)
		}
		if n := len(record.Stdout); n != 1<<20/3*3 || !record.Truncated {
			t.Errorf("record has %d bytes, truncated %v", n, record.Truncated)
		}
	})

	inBubble(t, "timeout", func(t *testing.T) {
		w := start(t, nil)
		_, events := w.open(t, w.sandbox(t, "a"), `{"command":"sleep 9000","timeout_ms":1500,"stream":true}`)
		diffEvents(t, []event{
			{"start", startEvent},
			{"stdout", `{"data":"a\n"}`},
			{"exit", exitEvent("timeout", "124")},
		}, events.all(t))
	})

	inBubble(t, "lost-in-the-middle-is-one-error-event", func(t *testing.T) {
		w := start(t, nil)
		_, events := w.open(t, w.sandbox(t, "a"), `{"command":"lose it","stream":true}`)
		diffEvents(t, []event{
			{"start", startEvent},
			{"stdout", `{"data":"before\n"}`},
			{"error", `{"error":{"message":"*","type":"conflict"}}`},
		}, events.all(t))
	})

	inBubble(t, "a-failed-start-that-is-a-200-is-a-stream", func(t *testing.T) {
		w := start(t, nil)
		_, events := w.open(t, w.sandbox(t, "a"), `{"command":"no-shell","stream":true}`)
		diffEvents(t, []event{
			{"start", startEvent},
			{"exit", exitEvent("failed", "null")},
		}, events.all(t))
	})

	inBubble(t, "pings-keep-a-silent-stream-alive", func(t *testing.T) {
		w := start(t, nil)
		w.backend.Handle("say it", func(p *fake.Process) int { p.Sleep(41 * time.Second); return 0 })
		_, events := w.open(t, w.sandbox(t, "a"), streamBody)
		last, pings := time.Now(), 0
		for {
			e, err := events.next()
			if err != nil {
				break
			}
			if d := time.Since(last); d > 15*time.Second {
				t.Errorf("%v without a sign of life before %v", d, e)
			}
			last = time.Now()
			if e == (event{":", "ping"}) {
				pings++
			}
		}
		if pings == 0 {
			t.Error("no ping")
		}
	})

	inBubble(t, "sandbox-deleted-in-the-middle", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		_, events := w.open(t, id, `{"command":"sleep 9000","stream":true}`)
		if code, body := w.do(t, "DELETE", "/v1/sandboxes/"+id, ""); code != 200 {
			t.Errorf("delete: %d: %s", code, body)
		}
		got := events.all(t)
		diffEvents(t, []event{{"exit", exitEvent("cancelled", "null")}}, got[len(got)-1:])
	})

	inBubble(t, "manager-closed-in-the-middle", func(t *testing.T) {
		w := start(t, nil)
		_, one := w.open(t, w.sandbox(t, "a"), `{"command":"sleep 9000","stream":true}`)
		_, two := w.open(t, w.sandbox(t, "a"), `{"command":"sleep 9000","stream":true}`)
		if err := w.manager.Close(t.Context()); err != nil {
			t.Error(err)
		}
		for _, events := range []*eventReader{one, two} {
			got := events.all(t)
			diffEvents(t, []event{{"exit", exitEvent("cancelled", "null")}}, got[len(got)-1:])
		}
		if code, body := w.do(t, "POST", "/v1/sandboxes", `{}`); code != 503 {
			t.Errorf("create after the end: %d: %s", code, body)
		}
	})
}

// A flushCounter counts how often a handler sends something on its way.
type flushCounter struct {
	http.ResponseWriter
	n int
}

func (f *flushCounter) FlushError() error {
	f.n++
	return http.NewResponseController(f.ResponseWriter).Flush()
}

func TestStreamOfWhatIsThere(t *testing.T) {
	inBubble(t, "is-sent-together", func(t *testing.T) {
		w := start(t, nil)
		w.backend.Handle("both in turns", func(p *fake.Process) int {
			for range 1000 {
				io.WriteString(p.Stdout, "o")
				io.WriteString(p.Stderr, "e")
			}
			return 0
		})
		id := w.sandbox(t, "a")
		w.do(t, "POST", "/v1/sandboxes/"+id+"/exec", `{"command":"both in turns"}`)
		rec := httptest.NewRecorder()
		counter := &flushCounter{ResponseWriter: rec}
		path := "/v1/sandboxes/" + id + "/executions/" + w.executions(t, id)[0] + "/stream"
		w.api.Sandboxes().ServeHTTP(counter, request(t.Context(), t, "GET", path, ""))
		events := newEventReader(rec.Body).all(t)
		if len(events) != 2002 {
			t.Errorf("%d events, want one of each write, start and exit", len(events))
		}
		if counter.n > 5 {
			t.Errorf("%d flushes of output that was there", counter.n)
		}
	})
}

func TestStreamInBase64(t *testing.T) {
	binary := strings.Repeat("a\xff\x00\xe2\x82", 20_000)
	decode := func(t *testing.T, events []event) string {
		t.Helper()
		var all strings.Builder
		for _, e := range events {
			if e.name == "stdout" {
				var chunk struct{ Data []byte }
				if err := json.Unmarshal([]byte(e.data), &chunk); err != nil {
					t.Fatal(err)
				}
				all.Write(chunk.Data)
			}
			if e.name != "exit" && len(e.data) > 32<<10 {
				t.Errorf("a line of %d bytes", len(e.data))
			}
		}
		return all.String()
	}
	inBubble(t, "has-the-exact-bytes", func(t *testing.T) {
		w := start(t, nil)
		w.backend.Handle("say it", fake.Result(0, binary, ""))
		id := w.sandbox(t, "a")
		_, events := w.open(t, id, `{"command":"say it","stream":true,"encoding":"base64"}`)
		if got := decode(t, events.all(t)); got != binary {
			t.Errorf("live: %d bytes, or others than the %d that were printed", len(got), len(binary))
		}
		path := "/v1/sandboxes/" + id + "/executions/" + w.executions(t, id)[0] + "/stream?encoding=base64&offset=4-0"
		code, body := w.do(t, "GET", path, "")
		if got := decode(t, newEventReader(strings.NewReader(body)).all(t)); code != 200 || got != binary[4:] {
			t.Errorf("from the middle of a character: %d, %d bytes, or others", code, len(got))
		}
	})
	inBubble(t, "split-where-it-is-read", func(t *testing.T) {
		w := start(t, nil)
		w.backend.Handle("say it", func(p *fake.Process) int {
			io.WriteString(p.Stdout, "\xe2")
			p.Sleep(time.Second)
			io.WriteString(p.Stdout, "\x82\xac")
			return 0
		})
		_, events := w.open(t, w.sandbox(t, "a"), `{"command":"say it","stream":true,"encoding":"base64"}`)
		diffEvents(t, []event{
			{"start", startEvent},
			{"stdout", `{"data":"4g=="}`},
			{"stdout", `{"data":"gqw="}`},
			{"exit", exitEvent("completed", "0")},
		}, events.all(t))
	})
}

// executions returns the ids of a sandbox's executions.
func (w *testServer) executions(t testing.TB, id string) (ids []string) {
	t.Helper()
	_, body := w.do(t, "GET", "/v1/sandboxes/"+id+"/executions", "")
	var list struct{ Data []struct{ ID string } }
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Data {
		ids = append(ids, e.ID)
	}
	return ids
}
