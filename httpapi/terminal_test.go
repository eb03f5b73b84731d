package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
	"github.com/sandbox-go/sandbox/httpapi"
)

// terminal opens a terminal in owner a's sandbox.
func (w *testServer) terminal(t testing.TB, id, query string) *websocket.Conn {
	t.Helper()
	conn, resp, err := w.dialTerminal(t, id, query, "Authorization", "Bearer key-a")
	if err != nil {
		t.Fatalf("%v: %v", err, resp)
	}
	return conn
}

func (w *testServer) dialTerminal(t testing.TB, id, query string, header ...string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	opts := &websocket.DialOptions{HTTPClient: w.client, HTTPHeader: http.Header{}}
	for i := 0; i < len(header); i += 2 {
		opts.HTTPHeader.Set(header[i], header[i+1])
	}
	conn, resp, err := websocket.Dial(t.Context(), "ws://server/v1/sandboxes/"+id+"/terminal"+query, opts)
	if conn != nil {
		conn.SetReadLimit(-1)
		t.Cleanup(func() { conn.CloseNow() })
	}
	return conn, resp, err
}

// A session is all that a terminal has sent, to its end.
type session struct {
	printed string
	told    []string // the text messages
	end     websocket.StatusCode
}

func readSession(t testing.TB, conn *websocket.Conn) session {
	t.Helper()
	var s session
	for {
		kind, data, err := conn.Read(t.Context())
		if err != nil {
			s.end = websocket.CloseStatus(err)
			return s
		}
		if kind == websocket.MessageBinary {
			s.printed += string(data)
		} else {
			s.told = append(s.told, string(data))
			checkDocumented(t, document().Components.Schemas["TerminalMessage"].Value, string(data))
		}
	}
}

// record returns the latest record of owner a's sandbox.
func (w *testServer) record(t testing.TB, id string) *sandbox.Execution {
	t.Helper()
	sb, err := w.manager.Get(sandbox.Key{Owner: "a", Namespace: httpapi.Sandboxes, Name: id})
	if err != nil {
		t.Fatal(err)
	}
	execs := sb.Execs()
	return execs[len(execs)-1].Execution()
}

func diffTold(t *testing.T, want, got []string) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("told %q", got)
	}
	for i := range want {
		diffJSON(t, want[i], got[i])
	}
}

const (
	startMessage = `{"type":"start","id":"*","sandbox_id":"*"}`
	exitMessage  = `{"type":"exit","execution":{"object":"execution","status":"%s","exit_code":%s,"*":0}}`
)

func TestTerminal(t *testing.T) {
	inBubble(t, "types-and-prints", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		w.backend.Handle("cat", func(p *fake.Process) int {
			fmt.Fprintf(p.Stdout, "%d×%d\n", p.Terminal().Cols, p.Terminal().Rows)
			io.CopyN(p.Stdout, p.Stdin, 3)
			io.WriteString(p.Stderr, "\xff\x00")
			return 7
		})
		conn := w.terminal(t, id, "?command=cat&cols=100&rows=30")
		synctest.Wait() // until the size is printed: what is typed is echoed at once
		if err := conn.Write(t.Context(), websocket.MessageBinary, []byte("a\xfe\r")); err != nil {
			t.Error(err)
		}
		got := readSession(t, conn)
		diffTold(t, []string{startMessage, fmt.Sprintf(exitMessage, "completed", "7")}, got.told)
		if want := "100×30\r\na\xfe\r\na\xfe\r\n\xff\x00"; got.printed != want || got.end != websocket.StatusNormalClosure {
			t.Errorf("printed %q, want %q; closed with %v", got.printed, want, got.end)
		}
	})

	inBubble(t, "is-a-shell-by-default", func(t *testing.T) {
		w := start(t, nil)
		readSession(t, w.terminal(t, w.sandbox(t, "a"), ""))
		if got := w.starts(); len(got) != 1 || !strings.Contains(got[0], "sh -i") {
			t.Errorf("started %q", got)
		}
	})

	inBubble(t, "resizes", func(t *testing.T) {
		w := start(t, nil)
		w.backend.Handle("size", func(p *fake.Process) int {
			io.ReadFull(p.Stdin, make([]byte, 1))
			fmt.Fprintf(p.Stdout, "%v", *p.Terminal())
			return 0
		})
		conn := w.terminal(t, w.sandbox(t, "a"), "?command=size")
		conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"resize","cols":132,"rows":50}`))
		conn.Write(t.Context(), websocket.MessageBinary, []byte("x"))
		if got := readSession(t, conn); got.printed != "x{50 132}" {
			t.Errorf("printed %q", got.printed)
		}
	})

	for _, message := range []string{`{"type":"resize","cols":65536}`, `{"type":"shout"}`, `{}`, `[]`, `x`, `{"type":"` + strings.Repeat("€", 100) + `"}`} {
		inBubble(t, "ends-on-"+message[:min(len(message), 30)], func(t *testing.T) {
			w := start(t, nil)
			id := w.sandbox(t, "a")
			conn := w.terminal(t, id, "?command=sleep+9000")
			conn.Write(t.Context(), websocket.MessageText, []byte(message))
			if got := readSession(t, conn); got.end != websocket.StatusPolicyViolation {
				t.Errorf("closed with %v", got.end)
			}
			w.wantStatus(t, id, sandbox.Cancelled)
		})
	}

	inBubble(t, "a-client-that-leaves-ends-the-command", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		w.terminal(t, id, "?command=sleep+9000").CloseNow()
		w.wantStatus(t, id, sandbox.Cancelled)
	})

	inBubble(t, "unless-it-is-kept", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		conn := w.terminal(t, id, "?command=sleep+9000&keep=true")
		conn.Close(websocket.StatusNormalClosure, "")
		time.Sleep(time.Minute)
		if rec := w.record(t, id); rec.Status != sandbox.Running {
			t.Errorf("status %s", rec.Status)
		}
		if err := w.api.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})

	inBubble(t, "shutdown-tells-how-it-ended", func(t *testing.T) {
		w := start(t, nil)
		conn := w.terminal(t, w.sandbox(t, "a"), "?command=sleep+9000")
		got := make(chan session, 1)
		go func() { got <- readSession(t, conn) }()
		synctest.Wait()
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.api.Wait(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it was not waited for: %v", err)
		}
		if err := w.manager.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := w.api.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		s := <-got
		diffTold(t, []string{startMessage, fmt.Sprintf(exitMessage, "cancelled", "null")}, s.told)
	})

	inBubble(t, "the-servers-context-tells-how-it-ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w := start(t, func(w *testServer) { w.server.BaseContext = func(net.Listener) context.Context { return ctx } })
		conn := w.terminal(t, w.sandbox(t, "a"), "?command=sleep+9000")
		cancel()
		s := readSession(t, conn)
		diffTold(t, []string{startMessage, fmt.Sprintf(exitMessage, "cancelled", "null")}, s.told)
	})

	inBubble(t, "a-lost-sandbox-is-told", func(t *testing.T) {
		w := start(t, nil)
		s := readSession(t, w.terminal(t, w.sandbox(t, "a"), "?command=lose+it"))
		diffTold(t, []string{startMessage, `{"type":"error","error":{"message":"*","type":"conflict"}}`}, s.told)
	})

	inBubble(t, "a-reader-that-pauses-holds-the-command-and-misses-nothing", func(t *testing.T) {
		w := start(t, nil)
		const size = 4 << 20
		var written atomic.Int64
		w.backend.Handle("flood", func(p *fake.Process) int {
			for written.Load() < size {
				n, _ := io.WriteString(p.Stdout, strings.Repeat("x", 1<<10))
				written.Add(int64(n))
			}
			return 0
		})
		conn := w.terminal(t, w.sandbox(t, "a"), "?command=flood")
		time.Sleep(time.Hour)
		if n := written.Load(); n > 1<<20 {
			t.Errorf("%d bytes were written and nobody read", n)
		}
		if got := readSession(t, conn); len(got.printed) != size {
			t.Errorf("%d bytes", len(got.printed))
		}
	})

	inBubble(t, "a-command-that-does-not-read-holds-the-typist", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		conn := w.terminal(t, id, "?command=sleep+9000")
		go readSession(t, conn)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		sent := 0
		for conn.Write(ctx, websocket.MessageBinary, make([]byte, 64<<10)) == nil {
			sent++
		}
		if sent > 100 {
			t.Errorf("%d messages were taken", sent)
		}
		if rec := w.record(t, id); rec.Status != sandbox.Running || rec.Duration < 5*time.Second {
			t.Errorf("after %v: %s", rec.Duration, rec.Status)
		}
	})

	inBubble(t, "a-client-that-has-vanished-is-noticed", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		w.backend.Handle("sleep", func(p *fake.Process) int { p.Sleep(9000 * time.Second); return 0 })
		conn := w.terminal(t, id, "?command=sleep")
		if _, _, err := conn.Read(t.Context()); err != nil {
			t.Error(err)
		}
		// From now on it does not read, so it answers no ping.
		time.Sleep(2 * time.Minute)
		if rec := w.record(t, id); rec.Status != sandbox.Cancelled {
			t.Errorf("status %s", rec.Status)
		}
	})

	inBubble(t, "a-silent-one-lives", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		conn := w.terminal(t, id, "?command=sleep+9000")
		go readSession(t, conn)
		time.Sleep(time.Hour)
		if rec := w.record(t, id); rec.Status != sandbox.Running {
			t.Errorf("status %s", rec.Status)
		}
	})

	inBubble(t, "a-message-that-is-too-large-ends-it", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		w.backend.Handle("cat", func(p *fake.Process) int { io.Copy(io.Discard, p.Stdin); return 0 })
		conn := w.terminal(t, id, "?command=cat")
		ends := make(chan session, 1)
		go func() { ends <- readSession(t, conn) }()
		conn.Write(t.Context(), websocket.MessageBinary, make([]byte, 1<<20+1))
		if got := <-ends; got.end != websocket.StatusMessageTooBig {
			t.Errorf("closed with %v", got.end)
		}
		w.wantStatus(t, id, sandbox.Cancelled)
	})
}

func TestTickets(t *testing.T) {
	issue := func(t *testing.T, w *testServer, id string) string {
		t.Helper()
		code, body := w.do(t, "POST", "/v1/sandboxes/"+id+"/terminal/tickets", "")
		var answer struct{ Ticket string }
		if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 201 {
			t.Fatalf("%d: %s", code, body)
		}
		return "?command=true&ticket=" + answer.Ticket
	}

	inBubble(t, "opens-one-terminal-once", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		query := issue(t, w, id)
		conn, _, err := w.dialTerminal(t, id, query, "Origin", "http://server")
		if err != nil {
			t.Fatal(err)
		}
		readSession(t, conn)
		if _, resp, err := w.dialTerminal(t, id, query); err == nil || resp.StatusCode != 401 {
			t.Errorf("used again: %v, %v", resp, err)
		}
		if diff := cmp.Diff([]string{"true"}, w.starts()); diff != "" {
			t.Errorf("started (-want +got):\n%s", diff)
		}
	})

	inBubble(t, "opens-nothing-else", func(t *testing.T) {
		w := start(t, nil)
		id, other := w.sandbox(t, "a"), w.sandbox(t, "a")
		for _, path := range []string{
			"/v1/sandboxes/" + other + "/terminal" + issue(t, w, id),
			"/v1/sandboxes/" + id + issue(t, w, id),
			"/v1/sandboxes/" + id + "/executions" + issue(t, w, id),
			"/v1/sandboxes/" + id + "/terminal?ticket=ticket_none",
		} {
			if resp := w.anonymous(t, "GET", path, "", "Upgrade", "websocket", "Connection", "Upgrade"); resp.StatusCode != 401 {
				t.Errorf("%s: %d", path, resp.StatusCode)
			}
		}
	})

	inBubble(t, "expires", func(t *testing.T) {
		w := start(t, nil)
		id := w.sandbox(t, "a")
		query := issue(t, w, id)
		time.Sleep(30 * time.Second)
		if _, resp, err := w.dialTerminal(t, id, query); err == nil || resp.StatusCode != 401 {
			t.Errorf("%v, %v", resp, err)
		}
	})
}

// A page of another site may not open a terminal, whatever it has.
func TestOrigins(t *testing.T) {
	inBubble(t, "origins", func(t *testing.T) {
		w := start(t, func(w *testServer) {
			w.opts.Origins = []string{"https://app.example.com"}
			w.opts.BaseURL = "https://api.example.com"
		})
		id := w.sandbox(t, "a")
		for origin, ok := range map[string]bool{
			"":                             true,
			"http://server":                true,
			"https://api.example.com":      true,
			"https://APP.example.com":      true,
			"http://app.example.com":       false,
			"https://app.example.com.evil": false,
			"https://evil.example":         false,
			"http://server:81":             false,
			"null":                         false,
			"file://":                      false,
		} {
			header := []string{"Authorization", "Bearer key-a"}
			if origin != "" {
				header = append(header, "Origin", origin)
			}
			conn, resp, err := w.dialTerminal(t, id, "?command=true", header...)
			switch {
			case ok && err != nil:
				t.Errorf("%s: %v", origin, err)
			case ok:
				conn.CloseNow()
			case err == nil || resp.StatusCode != 403:
				t.Errorf("%s: %v, %v", origin, resp, err)
			}
		}
	})
}
