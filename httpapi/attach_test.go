package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
	"github.com/sandbox-go/sandbox/internal/faketest"
	"github.com/sandbox-go/sandbox/internal/text"
)

// background starts a command of owner a and returns the path of its execution.
func (w *testServer) background(t testing.TB, id, body string) string {
	t.Helper()
	code, got := w.do(t, "POST", "/v1/sandboxes/"+id+"/exec", body)
	var rec struct{ ID string }
	if err := json.Unmarshal([]byte(got), &rec); err != nil || code != 202 {
		t.Fatalf("%d: %s", code, got)
	}
	return "/v1/sandboxes/" + id + "/executions/" + rec.ID
}

// attach reads an execution's events from an offset on, which must be answered with
// a stream.
func (w *testServer) attach(t testing.TB, path, from string) *eventReader {
	t.Helper()
	r := request(t.Context(), t, "GET", path+"/stream", "")
	if from != "" {
		r.Header.Set("Last-Event-ID", from)
	}
	resp, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %s", resp.Status)
	}
	return newEventReader(resp.Body)
}

func TestAttach(t *testing.T) {
	const hostile = "a\xe2\x82\xac\xffb\xe2\x82\xf0\x9f\x98\x80\xe2"
	say := func(w *testServer) {
		w.backend.Handle("say it", func(p *fake.Process) int {
			for i := range len(hostile) {
				io.WriteString(p.Stdout, hostile[i:i+1])
				io.WriteString(p.Stderr, hostile[len(hostile)-1-i:][:1])
				p.Sleep(time.Second)
			}
			return 0
		})
	}

	inBubble(t, "resumes-exactly-after-every-event", func(t *testing.T) {
		w := start(t, nil)
		say(w)
		id := w.sandbox(t, "a")
		path := w.background(t, id, `{"command":"say it","background":true}`)
		whole := w.attach(t, path, "")
		var events []event
		var ids []string
		for {
			e, err := whole.next()
			if err != nil {
				break
			}
			if e.name != ":" {
				events, ids = append(events, e), append(ids, whole.id)
			}
		}
		var backwards []byte
		for i := range len(hostile) {
			backwards = append(backwards, hostile[len(hostile)-1-i])
		}
		want := map[string]string{"stdout": text.String([]byte(hostile)), "stderr": text.String(backwards)}
		for name, want := range want {
			if got := textOf(t, events, name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
		if first, last := ids[0], ids[len(ids)-1]; first != "0-0" || last != fmt.Sprintf("%d-%d", len(hostile), len(hostile)) {
			t.Errorf("ids from %s to %s", first, last)
		}
		for i, from := range ids {
			for name, want := range want {
				got := textOf(t, events[:i+1], name) + textOf(t, w.attach(t, path, from).all(t), name)
				if got != want {
					t.Errorf("resumed at %s: %s = %q, want %q", from, name, got, want)
				}
			}
		}
	})

	inBubble(t, "a-streamed-exec-has-the-same-ids", func(t *testing.T) {
		w := start(t, nil)
		say(w)
		id := w.sandbox(t, "a")
		_, events := w.open(t, id, streamBody)
		var first struct{ ID string }
		e, err := events.next()
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(e.data), &first); err != nil {
			t.Fatal(err)
		}
		begin := textOf(t, []event{must(events.next()), must(events.next()), must(events.next())}, "stdout")
		from := events.id
		all := textOf(t, events.all(t), "stdout")
		rest := textOf(t, w.attach(t, "/v1/sandboxes/"+id+"/executions/"+first.ID, from).all(t), "stdout")
		if rest != all || begin+rest != text.String([]byte(hostile)) {
			t.Errorf("%q, then %q, resumed %q", begin, all, rest)
		}
	})

	inBubble(t, "what-connects-again-after-exit-gets-it-again", func(t *testing.T) {
		w := start(t, nil)
		path := w.background(t, w.sandbox(t, "a"), `{"command":"echo hi","background":true}`)
		first := w.attach(t, path, "")
		first.all(t)
		diffEvents(t, []event{{"start", `{"*":0}`}, {"exit", exitEvent("completed", "0")}}, w.attach(t, path, first.id).all(t))
	})

	inBubble(t, "leaving-ends-nothing", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		path := w.background(t, id, `{"command":"sleep 9000","background":true}`)
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := w.client.Do(request(ctx, t, "GET", path+"/stream", ""))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		resp.Body.Close()
		time.Sleep(time.Minute)
		_, body := w.do(t, "GET", path, "")
		diffJSON(t, `{"status":"running","exit_code":null,"duration_ms":null,"finished_at":null,"*":0}`, body)
	})

	inBubble(t, "what-is-not-stored-is-a-gap", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		path := w.background(t, id, `{"command":"print 3 MiB","background":true}`)
		synctest.Wait()
		events := w.attach(t, path, "")
		got := events.all(t)
		if want := fmt.Sprintf("%d-0", 3<<20); events.id != want {
			t.Errorf("the last id is %s, want %s", events.id, want)
		}
		if text := textOf(t, got, "stdout"); text != strings.Repeat("€", 1<<20/3) {
			t.Errorf("stdout has %d bytes", len(text))
		}
		diffEvents(t, []event{
			{"gap", fmt.Sprintf(`{"stream":"stdout","bytes":%d,"offset":%d}`, 3<<20-1<<20/3*3, 3<<20)},
			{"exit", exitEvent("completed", "0")},
		}, got[len(got)-2:])
		again := w.attach(t, path, fmt.Sprintf("%d-0", 3<<20))
		diffEvents(t, []event{{"start", startEvent}, {"exit", exitEvent("completed", "0")}}, again.all(t))
	})

	inBubble(t, "sandbox-lost-is-one-error-event", func(t *testing.T) {
		w := start(t, nil)
		path := w.background(t, w.sandbox(t, "a"), `{"command":"lose it","background":true}`)
		diffEvents(t, []event{
			{"start", startEvent},
			{"stdout", `{"data":"before\n"}`},
			{"error", `{"error":{"message":"*","type":"conflict"}}`},
		}, w.attach(t, path, "").all(t))
	})

	inBubble(t, "shutdown-gives-it-the-last-event", func(t *testing.T) {
		w := start(t, nil)
		path := w.background(t, w.sandbox(t, "a"), `{"command":"sleep 9000","background":true}`)
		events := w.attach(t, path, "")
		if err := w.manager.Close(t.Context()); err != nil {
			t.Error(err)
		}
		got := events.all(t)
		diffEvents(t, []event{{"exit", exitEvent("cancelled", "null")}}, got[len(got)-1:])
	})
}

func must(e event, err error) event {
	if err != nil {
		panic(err)
	}
	return e
}

func TestBackground(t *testing.T) {
	inBubble(t, "is-bounded-by-its-timeout", func(t *testing.T) {
		w := start(t, nil)
		path := w.background(t, w.sandbox(t, "a"), `{"command":"sleep 9000","background":true,"timeout_ms":1000000}`)
		time.Sleep(1001 * time.Second)
		_, body := w.do(t, "GET", path, "")
		diffJSON(t, exitEvent("timeout", "124"), body)
	})

	inBubble(t, "is-bounded-by-its-sandbox", func(t *testing.T) {
		records := make(chan *sandbox.Execution, 2)
		w := start(t, func(w *testServer) {
			w.limits.Observer = faketest.Records(func(_ sandbox.Key, rec *sandbox.Execution) { records <- rec })
		})
		id := w.sandbox(t, "a")
		w.background(t, id, `{"command":"sleep 9000","background":true}`)
		w.do(t, "DELETE", "/v1/sandboxes/"+id, "")
		<-records
		if rec := <-records; rec.Status != sandbox.Cancelled {
			t.Errorf("status %s", rec.Status)
		}
	})

	inBubble(t, "stdin-is-written-and-closed", func(t *testing.T) {
		w := start(t, nil)
		w.backend.Handle("cat", func(p *fake.Process) int { io.Copy(p.Stdout, p.Stdin); return 0 })
		path := w.background(t, w.sandbox(t, "a"), `{"command":"cat","background":true,"open_stdin":true}`)
		for _, call := range []struct {
			query, body, want string
			code              int
		}{
			{"", "a\x00\xff", `{"bytes_written":3,"closed":false}`, 200},
			{"?close=maybe", "never", `{"error":{"message":"close: must be true or false","type":"invalid_request"}}`, 400},
			{"?close=true", "b", `{"bytes_written":1,"closed":true}`, 200},
			{"", "never", `{"error":{"message":"*","type":"conflict"}}`, 409},
		} {
			code, body := w.do(t, "POST", path+"/stdin"+call.query, call.body)
			if code != call.code {
				t.Errorf("%s: %d", call.query, code)
			}
			diffJSON(t, call.want, body)
		}
		synctest.Wait()
		_, body := w.do(t, "GET", path, "")
		diffJSON(t, `{"status":"completed","stdout":"a\u0000`+"\uFFFD"+`b","*":0}`, body)
	})

	inBubble(t, "stdin-arrives-as-it-comes-and-no-faster-than-it-is-read", func(t *testing.T) {
		w := start(t, func(w *testServer) { w.server.ReadTimeout, w.server.WriteTimeout = time.Second, time.Second })
		w.backend.Handle("read slowly", func(p *fake.Process) int {
			buf := make([]byte, 1)
			for {
				if _, err := io.ReadFull(p.Stdin, buf); err != nil {
					return 0
				}
				p.Stdout.Write(buf)
				p.Sleep(time.Second)
			}
		})
		path := w.background(t, w.sandbox(t, "a"), `{"command":"read slowly","background":true,"open_stdin":true}`)
		r, body := io.Pipe()
		answered := make(chan int)
		go func() {
			req := request(t.Context(), t, "POST", path+"/stdin?close=true", "")
			req.Body, req.ContentLength = r, -1
			resp, err := w.client.Do(req)
			if err != nil {
				t.Error(err)
				answered <- 0
				return
			}
			resp.Body.Close()
			answered <- resp.StatusCode
		}()
		io.WriteString(body, "a")
		time.Sleep(5 * time.Second)
		_, record := w.do(t, "GET", path, "")
		diffJSON(t, `{"status":"running","stdout":"a","*":0}`, record)
		io.WriteString(body, "b")
		body.Close()
		if code := <-answered; code != 200 {
			t.Errorf("%d", code)
		}
	})

	inBubble(t, "an-upload-that-stalls-ends-with-what-it-is-for", func(t *testing.T) {
		w := start(t, nil)
		w.backend.Handle("brief", func(p *fake.Process) int { p.Sleep(time.Second); return 0 })
		id := w.sandbox(t, "a")
		path := w.background(t, id, `{"command":"brief","background":true,"open_stdin":true}`)
		stall := func(method, path string) int {
			r, body := io.Pipe()
			defer body.Close()
			go io.WriteString(body, "begun")
			req := request(t.Context(), t, method, path, "")
			req.Body, req.ContentLength = r, 100
			resp, err := w.client.Do(req)
			if err != nil {
				t.Error(err)
				return 0
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		if code := stall("POST", path+"/stdin"); code != 409 {
			t.Errorf("stdin of a command that has ended: %d", code)
		}
		var removal sync.WaitGroup
		removal.Go(func() {
			time.Sleep(time.Second)
			w.do(t, "DELETE", "/v1/sandboxes/"+id, "")
		})
		if code := stall("PUT", "/v1/sandboxes/"+id+"/files?path=x"); code != 409 {
			t.Errorf("a file of a sandbox that was removed: %d", code)
		}
		removal.Wait()
	})

	inBubble(t, "the-same-key-is-the-same-execution", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		call := func(sb, key, body string) string {
			r := request(t.Context(), t, "POST", "/v1/sandboxes/"+sb+"/exec", body)
			r.Header.Set("Idempotency-Key", key)
			resp, err := w.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var rec struct{ ID string }
			if resp.Header.Get("Content-Type") == "text/event-stream" {
				e, err := newEventReader(resp.Body).next()
				if err != nil {
					t.Fatal(err)
				}
				err = json.Unmarshal([]byte(e.data), &rec)
				if err != nil {
					t.Fatal(err)
				}
				return rec.ID
			}
			if err := json.NewDecoder(resp.Body).Decode(&rec); err != nil {
				t.Fatal(err)
			}
			return rec.ID
		}
		first := call(id, "k", `{"command":"echo hi"}`)
		for _, body := range []string{`{"command":"echo hi"}`, `{"command":"exit 3"}`, `{"command":"true","background":true}`, `{"command":"true","stream":true}`} {
			if got := call(id, "k", body); got != first {
				t.Errorf("%s: %s, want %s", body, got, first)
			}
		}
		if call(id, "other", `{"command":"true"}`) == first || call(id, "", `{"command":"true"}`) == first || call(w.sandbox(t, "a"), "k", `{"command":"true"}`) == first {
			t.Error("another key, no key or another sandbox answers with the first execution")
		}
		if diff := cmp.Diff([]string{"echo hi", "true", "true", "true"}, w.starts()); diff != "" {
			t.Errorf("started (-want +got):\n%s", diff)
		}
	})
}

func TestSignals(t *testing.T) {
	for _, body := range []string{`{"signal":"SIGTERM"}`, `{"signal":15}`} {
		inBubble(t, body, func(t *testing.T) {
			w := start(t, nil)
			path := w.background(t, w.sandbox(t, "a"), `{"command":"sleep 9000","background":true}`)
			if code, got := w.do(t, "POST", path+"/signal", body); code != 200 {
				t.Errorf("%d: %s", code, got)
			}
			synctest.Wait()
			_, got := w.do(t, "GET", path, "")
			diffJSON(t, `{"status":"completed","exit_code":143,"signal":"SIGTERM","*":0}`, got)
			if code, got := w.do(t, "POST", path+"/signal", body); code != 409 {
				t.Errorf("after the end: %d: %s", code, got)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	inBubble(t, "kills-and-answers-with-the-final-record", func(t *testing.T) {
		w := start(t, nil)
		path := w.background(t, w.sandbox(t, "a"), `{"command":"sleep 9000","background":true}`)
		for range 2 {
			code, body := w.do(t, "DELETE", path, "")
			if code != 200 {
				t.Errorf("%d", code)
			}
			diffJSON(t, exitEvent("cancelled", "null"), body)
		}
	})
}

// A walk along a list by its cursor sees everything once, in order, also what is
// added on the way.
func TestPages(t *testing.T) {
	inBubble(t, "walk", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		var want []string
		add := func() {
			time.Sleep(time.Millisecond)
			path := w.background(t, id, `{"command":"true","background":true}`)
			want = append(want, path[strings.LastIndex(path, "/")+1:])
		}
		for range 4 {
			add()
		}
		var got []string
		var answer struct {
			Data    []struct{ ID string }
			HasMore bool `json:"has_more"`
		}
		for i := 0; i == 0 || answer.HasMore; i++ {
			path := "/v1/sandboxes/" + id + "/executions?limit=2"
			if i > 0 {
				path += "&after=" + got[len(got)-1]
			}
			_, body := w.do(t, "GET", path, "")
			answer.Data = nil
			if err := json.Unmarshal([]byte(body), &answer); err != nil {
				t.Fatal(err)
			}
			for _, item := range answer.Data {
				got = append(got, item.ID)
			}
			if i == 0 {
				add()
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("walked (-want +got):\n%s", diff)
		}
	})
}
