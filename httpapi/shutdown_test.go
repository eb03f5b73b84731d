package httpapi_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The order of shutting down that the package documentation gives.
func TestShutdown(t *testing.T) {
	stop := func(w *testServer) (time.Duration, error) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
		defer cancel()
		drained := make(chan error, 1)
		go func() { drained <- w.server.Shutdown(ctx) }()
		err := errors.Join(w.manager.Close(ctx), <-drained)
		return time.Since(began), err
	}

	inBubble(t, "each-stream-gets-its-last-event", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		_, one := w.open(t, id, `{"command":"sleep 9000","stream":true}`)
		_, two := w.open(t, w.sandbox(t, "a"), `{"command":"sleep 9000","stream":true}`)
		got := make(chan []event, 2)
		for _, events := range []*eventReader{one, two} {
			go func() { got <- events.all(t) }()
		}
		synctest.Wait()
		took, err := stop(w)
		if err != nil || took > 2*time.Second {
			t.Errorf("stopped after %v: %v", took, err)
		}
		for range 2 {
			diffEvents(t, []event{
				{"start", startEvent},
				{"stdout", `{"data":"a\n"}`},
				{"exit", exitEvent("cancelled", "null")},
			}, <-got)
		}
	})

	inBubble(t, "unstreamed-calls-are-answered", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		type answer struct {
			code int
			body string
		}
		answers := make(map[string]chan answer)
		for path, body := range map[string]string{
			room:                            `{"cmd":"sleep 9000"}`,
			agent:                           `{"command":"sleep 9000"}`,
			"/v1/sandboxes/" + id + "/exec": `{"command":"sleep 9000"}`,
		} {
			c := make(chan answer, 1)
			answers[path] = c
			go func() {
				code, body := w.do(t, "POST", path, body)
				c <- answer{code, body}
			}()
		}
		synctest.Wait()
		if took, err := stop(w); err != nil || took > 2*time.Second {
			t.Errorf("stopped after %v: %v", took, err)
		}
		for path, want := range map[string]answer{
			room:                            {500, `{"error":"sandbox execution failed: the command was cancelled"}`},
			agent:                           {200, `{"exitCode":null,"state":"exited","stdout":"a\n","*":0}`},
			"/v1/sandboxes/" + id + "/exec": {200, exitEvent("cancelled", "null")},
		} {
			got := <-answers[path]
			if got.code != want.code {
				t.Errorf("%s: %d", path, got.code)
			}
			diffJSON(t, want.body, got.body)
		}
	})

	inBubble(t, "a-client-that-never-reads-is-cut-off-in-time", func(t *testing.T) {
		w := start(t, nil)
		conn := w.send(t, "/v1/sandboxes/"+w.sandbox(t, "a")+"/exec", `{"command":"sleep 9000","stream":true}`)
		defer conn.Close()
		synctest.Wait()
		took, err := stop(w)
		if took != 8*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stopped after %v: %v", took, err)
		}
		w.server.Close()
	})
}
