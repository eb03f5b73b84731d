package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
	"github.com/sandbox-go/sandbox/httpapi"
	"github.com/sandbox-go/sandbox/internal/faketest"
)

// What the server around the handlers must not spoil.
func TestServer(t *testing.T) {
	deadlines := func(w *testServer) {
		w.server.ReadTimeout = time.Second
		w.server.WriteTimeout = time.Second
	}

	inBubble(t, "its-deadlines-do-not-cut-a-stream", func(t *testing.T) {
		w := start(t, deadlines)
		w.backend.Handle("say it", func(p *fake.Process) int {
			for range 5 {
				p.Sleep(time.Second)
				io.WriteString(p.Stdout, ".")
			}
			return 0
		})
		_, events := w.open(t, w.sandbox(t, "a"), streamBody)
		got := events.all(t)
		if text := textOf(t, got, "stdout"); text != "....." {
			t.Errorf("stdout = %q", text)
		}
		diffEvents(t, []event{{"exit", exitEvent("completed", "0")}}, got[len(got)-1:])
	})

	inBubble(t, "its-deadlines-do-not-cut-an-answer", func(t *testing.T) {
		w := start(t, func(w *testServer) {
			deadlines(w)
			slow := func() error { time.Sleep(5 * time.Second); return nil }
			w.fake.Create = func(context.Context, *sandbox.Config) error { return slow() }
			w.fake.Destroy = func(context.Context, string) error { return slow() }
		})
		w.backend.Handle("wait", func(p *fake.Process) int { p.Sleep(5 * time.Second); return 0 })
		id := w.sandbox(t, "a")
		for _, call := range []struct{ method, path, body, want string }{
			{"POST", room, `{"cmd":"wait"}`, `{"result":{"exitCode":0,"*":0},"sandboxName":"*"}`},
			{"POST", agent, `{"command":"wait"}`, `{"exitCode":0,"*":0}`},
			{"POST", "/v1/sandboxes/" + id + "/exec", `{"command":"wait"}`, exitEvent("completed", "0")},
			{"POST", "/v1/sandboxes", `{}`, `{"status":"running","*":0}`},
			{"DELETE", "/v1/sandboxes/" + id, "", `{"status":"deleted","*":0}`},
			{"DELETE", "/api/rooms/r1", "", `{"success":true,"*":0}`},
		} {
			code, body := w.do(t, call.method, call.path, call.body)
			if code >= 300 {
				t.Errorf("%s %s: %d", call.method, call.path, code)
			}
			diffJSON(t, call.want, body)
		}
	})

	inBubble(t, "a-client-that-never-reads-holds-neither-command-nor-handler", func(t *testing.T) {
		w := start(t, nil)
		w.backend.Handle("yes", func(p *fake.Process) int {
			for {
				io.WriteString(p.Stdout, "y\n")
			}
		})
		id := w.sandbox(t, "a")
		conn := w.send(t, "/v1/sandboxes/"+id+"/exec", `{"command":"yes","timeout_ms":5000,"stream":true}`)
		defer conn.Close()
		time.Sleep(5*time.Second + time.Millisecond)
		sb, err := w.manager.Get(sandbox.Key{Owner: "a", Namespace: httpapi.Sandboxes, Name: id})
		if err != nil {
			t.Fatal(err)
		}
		if rec := sb.Execs()[0].Execution(); rec.Status != sandbox.TimedOut {
			t.Errorf("after its timeout the status is %s", rec.Status)
		}
		time.Sleep(30 * time.Second)
		// The server has given up: what comes is not a whole stream.
		if err := readToEnd(conn); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the answer ended with %v", err)
		}
	})

	inBubble(t, "a-connection-serves-again-after-a-stream", func(t *testing.T) {
		w := start(t, nil)
		w.transport.MaxConnsPerHost = 1
		id := w.sandbox(t, "a")
		resp, events := w.open(t, id, `{"command":"echo hi","stream":true}`)
		events.all(t)
		resp.Body.Close()
		time.Sleep(time.Minute)
		if code, body := w.do(t, "POST", "/v1/sandboxes/"+id+"/exec", `{"command":"echo hi"}`); code != 200 {
			t.Errorf("%d: %s", code, body)
		}
	})

	inBubble(t, "middleware-that-hides-flusher-but-unwraps", func(t *testing.T) {
		w := start(t, func(w *testServer) {
			w.server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				w.api.Sandboxes().ServeHTTP(unwrapper{rw}, r)
			})
		})
		w.backend.Handle("say it", func(p *fake.Process) int {
			io.WriteString(p.Stdout, "x")
			p.Sleep(time.Hour)
			return 0
		})
		_, events := w.open(t, w.sandbox(t, "a"), streamBody)
		events.next()
		if e, err := events.next(); err != nil || e.name != "stdout" {
			t.Errorf("%v, %v", e, err)
		}
	})

	inBubble(t, "a-write-that-fails-ends-the-command", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		// A context that does not end with the handler, as some middleware makes.
		r := request(context.Background(), t, "POST", "/v1/sandboxes/"+id+"/exec", `{"command":"sleep 9000","stream":true}`)
		w.api.Sandboxes().ServeHTTP(brokenWriter{httptest.NewRecorder()}, r)
		w.wantStatus(t, id, sandbox.Cancelled)
	})

	inBubble(t, "its-context-ends-streams-with-their-last-event", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w := start(t, func(w *testServer) { w.server.BaseContext = func(net.Listener) context.Context { return ctx } })
		_, events := w.open(t, w.sandbox(t, "a"), `{"command":"sleep 9000","stream":true}`)
		events.next()
		events.next()
		cancel()
		diffEvents(t, []event{{"exit", exitEvent("cancelled", "null")}}, events.all(t))
	})

	inBubble(t, "middleware-that-cannot-flush-starts-nothing", func(t *testing.T) {
		w := start(t, func(w *testServer) {
			w.server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				w.api.Sandboxes().ServeHTTP(struct{ http.ResponseWriter }{rw}, r)
			})
		})
		code, body := w.do(t, "POST", "/v1/sandboxes/"+w.sandbox(t, "a")+"/exec", streamBody)
		if code != 500 {
			t.Errorf("%d", code)
		}
		diffJSON(t, `{"error":{"message":"this server cannot stream*","type":"internal"}}`, body)
		if started := w.starts(); started != nil {
			t.Errorf("started %q", started)
		}
	})

	inBubble(t, "strip-prefix", func(t *testing.T) {
		w := start(t, func(w *testServer) {
			w.server.Handler = http.StripPrefix("/tools", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				w.api.Rooms().ServeHTTP(rw, r)
			}))
		})
		code, body := w.do(t, "POST", "/tools/api/rooms/a%2Fb/sandbox/exec", `{"cmd":"echo hi"}`)
		if code != 200 {
			t.Errorf("%d: %s", code, body)
		}
		diffJSON(t, `{"sandboxName":"sandbox-a/b","*":0}`, body)
		if code, body := w.do(t, "POST", "/tools/api/roomsandmore", `{"cmd":"echo hi"}`); code != 404 {
			t.Errorf("%d: %s", code, body)
		}
	})

	inBubble(t, "register-beside-other-routes", func(t *testing.T) {
		w := start(t, func(w *testServer) {
			mux := http.NewServeMux()
			answer := func(text string) http.HandlerFunc {
				return func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, text) }
			}
			mux.HandleFunc("/", answer("home"))
			mux.HandleFunc("POST /api/rooms/{room}/message", answer("message"))
			w.server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if w.api != nil {
					w.api.Register(mux)
					w.api = nil
				}
				mux.ServeHTTP(rw, r)
			})
		})
		for path, want := range map[string]string{
			"/":                     "home",
			"/api":                  "home",
			"/api/rooms/r1/message": "message",
		} {
			if _, body := w.do(t, "POST", path, ""); body != want {
				t.Errorf("%s: %s", path, body)
			}
		}
		for _, path := range []string{"/api/rooms", "/agents", "/agents/x"} {
			if code, body := w.do(t, "POST", path, ""); code != 404 || !json.Valid([]byte(body)) {
				t.Errorf("%s: %d: %s", path, code, body)
			}
		}
		if code, body := w.do(t, "POST", room, `{"cmd":"echo hi"}`); code != 200 {
			t.Errorf("%d: %s", code, body)
		}
	})

	t.Run("http2", func(t *testing.T) {
		// In real time: the HTTP/2 server reads the clock from goroutines that it
		// keeps.
		w := start(t, func(w *testServer) {
			w.server.Protocols = new(http.Protocols)
			w.server.Protocols.SetUnencryptedHTTP2(true)
			w.server.WriteTimeout = 200 * time.Millisecond
		})
		w.backend.Handle("say it", func(p *fake.Process) int {
			io.WriteString(p.Stdout, "one")
			p.Sleep(400 * time.Millisecond)
			io.WriteString(p.Stdout, "two")
			return 0
		})
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		transport := w.transport
		transport.Protocols = protocols
		id := w.sandbox(t, "a")
		resp, events := w.open(t, id, streamBody)
		if resp.ProtoMajor != 2 {
			t.Fatalf("protocol %s", resp.Proto)
		}
		got := events.all(t)
		if text := textOf(t, got, "stdout"); text != "onetwo" {
			t.Errorf("stdout = %q", text)
		}
		diffEvents(t, []event{{"exit", exitEvent("completed", "0")}}, got[len(got)-1:])

		ctx, cancel := context.WithCancel(t.Context())
		resp, err := w.client.Do(request(ctx, t, "POST", "/v1/sandboxes/"+id+"/exec", `{"command":"sleep 9000","stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		cancel()
		w.wantStatus(t, id, sandbox.Cancelled)
	})
}

// A client that leaves ends what the documents say it ends.
func TestDisconnect(t *testing.T) {
	for _, tt := range []struct {
		name, path, body string
		want             sandbox.Status
	}{
		{"streamed", exec, `{"command":"sleep 9000","stream":true}`, sandbox.Cancelled},
		{"unstreamed", exec, `{"command":"sleep 9000"}`, sandbox.TimedOut},
		{"room", room, `{"cmd":"sleep 9000"}`, sandbox.Cancelled},
		{"agent", agent, `{"command":"sleep 9000"}`, sandbox.Cancelled},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			records := make(chan *sandbox.Execution, 1)
			w := start(t, func(w *testServer) {
				w.limits.Observer = faketest.Records(func(_ sandbox.Key, rec *sandbox.Execution) {
					if rec.Status != sandbox.Running {
						records <- rec
					}
				})
			})
			path := strings.Replace(tt.path, "{id}", w.sandbox(t, "a"), 1)
			conn := w.send(t, path, tt.body)
			synctest.Wait()
			left := time.Now()
			conn.Close()
			rec := <-records
			if rec.Status != tt.want || rec.Stdout.String() != "a\n" {
				t.Errorf("status %s, stdout %q", rec.Status, rec.Stdout)
			}
			if d := time.Since(left); tt.want == sandbox.Cancelled && d > time.Second {
				t.Errorf("it was dead after %v", d)
			}
		})
	}
}

// A removal goes on when the client has left.
func TestDisconnectDoesNotEndARemoval(t *testing.T) {
	for name, path := range map[string]string{"room": "/api/rooms/warm", "sandbox": "/v1/sandboxes/{id}"} {
		inBubble(t, name, func(t *testing.T) {
			w := start(t, func(w *testServer) {
				w.fake.Destroy = func(ctx context.Context, _ string) error {
					select {
					case <-time.After(5 * time.Second):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
			})
			ids := w.populate(t)
			before := len(w.backend.Sandboxes())
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := w.client.Do(request(ctx, t, "DELETE", ids.Replace(path), ""))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			if left := len(w.backend.Sandboxes()); left != before-1 {
				t.Errorf("%d sandboxes of %d are left", left, before)
			}
		})
	}
}

// When a call is over, where the command leaves something running that holds its
// output.
func TestOver(t *testing.T) {
	for _, tt := range []struct {
		name, path, body string
		want             time.Duration
	}{
		{"room", room, `{"cmd":"leave it"}`, 0},
		{"agent", agent, `{"command":"leave it"}`, 0},
		{"sandbox", exec, `{"command":"leave it"}`, 7 * time.Second},
		{"stream", exec, `{"command":"leave it","stream":true}`, 7 * time.Second},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			w := start(t, nil)
			w.backend.Handle("leave it", func(p *fake.Process) int {
				p.Spawn(func(p *fake.Process) int { p.Sleep(7 * time.Second); return 0 }, fake.How{})
				return 0
			})
			began := time.Now()
			path := strings.Replace(tt.path, "{id}", w.sandbox(t, "a"), 1)
			if code, body := w.do(t, "POST", path, tt.body); code != 200 {
				t.Errorf("%d: %s", code, body)
			}
			if took := time.Since(began); took != tt.want {
				t.Errorf("over after %v, want %v", took, tt.want)
			}
		})
	}
}

// send posts a request on a connection of its own and reads no answer.
func (w *testServer) send(t testing.TB, path, body string) net.Conn {
	t.Helper()
	return w.request(t, "POST", path, body)
}

// readToEnd reads an answer and returns how it ended.
func readToEnd(conn net.Conn) error {
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// wantStatus waits for the end of the latest execution of owner a's sandbox.
func (w *testServer) wantStatus(t testing.TB, id string, want sandbox.Status) {
	t.Helper()
	sb, err := w.manager.Get(sandbox.Key{Owner: "a", Namespace: httpapi.Sandboxes, Name: id})
	if err != nil {
		t.Fatal(err)
	}
	execs := sb.Execs()
	rec, err := execs[len(execs)-1].Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if rec.Status != want {
		t.Errorf("status %s, want %s", rec.Status, want)
	}
}

// A brokenWriter is a connection that has ended.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// An unwrapper hides all but the three methods of a ResponseWriter.
type unwrapper struct{ w http.ResponseWriter }

func (u unwrapper) Header() http.Header         { return u.w.Header() }
func (u unwrapper) Write(b []byte) (int, error) { return u.w.Write(b) }
func (u unwrapper) WriteHeader(status int)      { u.w.WriteHeader(status) }
func (u unwrapper) Unwrap() http.ResponseWriter { return u.w }
