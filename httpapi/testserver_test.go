package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/fake"
	"github.com/sandbox-go/sandbox/httpapi"
)

// A testServer is a server of the three APIs over a scripted backend, and a client of
// it. In a synctest bubble all of it is inside.
type testServer struct {
	opts      httpapi.Options
	limits    sandbox.ManagerOptions
	fake      fake.Options
	server    http.Server                           // its Handler defaults to a mux with all three APIs
	decorate  func(backend.Backend) backend.Backend // what the manager gets, or nil
	backend   *fake.Backend
	manager   *sandbox.Manager
	api       *httpapi.Handlers
	client    *http.Client // in tests, of documented requests only
	transport *http.Transport
	dial      func() (net.Conn, error)
}

// start starts a testServer, which set may change beforehand, and ends it with the
// test.
func start(t testing.TB, set func(*testServer)) *testServer {
	t.Helper()
	w := &testServer{}
	w.opts.Authenticate = httpapi.BearerKeys(map[string]string{"key-a": "a", "key-b": "b", "key-a2": "a"})
	w.fake.Start = startFault
	if set != nil {
		set(w)
	}
	w.backend = fake.New(&w.fake)
	script(w.backend)
	var b backend.Backend = w.backend
	if w.decorate != nil {
		b = w.decorate(b)
	}
	w.manager = sandbox.NewManager(b, &w.limits)
	w.api = httpapi.New(w.manager, &w.opts)
	if w.server.Handler == nil {
		mux := http.NewServeMux()
		w.api.Register(mux)
		w.server.Handler = mux
	}
	l := newPipeListener()
	w.dial = l.dial
	served := make(chan error)
	go func() { served <- w.server.Serve(l) }()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	transport := &http.Transport{
		Protocols:   protocols,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return l.dial() },
	}
	w.transport = transport
	w.client = &http.Client{Transport: transport}
	if _, ok := t.(*testing.T); ok {
		w.client.Transport = documented{transport, t}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := w.manager.Close(ctx); err != nil {
			t.Errorf("close the manager: %v", err)
		}
		transport.CloseIdleConnections()
		if err := w.server.Shutdown(ctx); err != nil {
			t.Errorf("shut the server down: %v", err)
		}
		<-served
		if err := w.backend.Close(ctx); err != nil {
			t.Errorf("close the backend: %v", err)
		}
	})
	return w
}

// script is what commands do in every testServer.
func script(b *fake.Backend) {
	b.Handle("true", fake.Result(0, "", ""))
	b.Handle("echo hi", fake.Result(0, "hi\n", ""))
	b.Handle("exit 3", fake.Result(3, "out\n", "err\n"))
	b.Handle("print binary", fake.Result(0, "a\xff\x00b<&>\xe2\x82", ""))
	b.Handle("sleep 9000", func(p *fake.Process) int {
		io.WriteString(p.Stdout, "a\n")
		p.Sleep(9000 * time.Second)
		return 0
	})
	b.Handle("lose it", func(p *fake.Process) int {
		io.WriteString(p.Stdout, "before\n")
		p.Sleep(time.Second)
		p.LoseSandbox()
		return 0
	})
	b.Handle("env", func(p *fake.Process) int {
		for _, kv := range p.Command().Env {
			io.WriteString(p.Stdout, kv+"\n")
		}
		return 0
	})
	b.Handle("pwd", func(p *fake.Process) int {
		io.WriteString(p.Stdout, p.Command().Dir+"\n")
		return 0
	})
	b.HandleFunc(func(c *fake.Command) bool { return strings.HasPrefix(c.Shell, "print 3 MiB") }, func(p *fake.Process) int {
		line := strings.Repeat("€", 1<<16)
		for range 16 {
			io.WriteString(p.Stdout, line)
		}
		return 0
	})
}

// startFault is how commands fail to start in every testServer.
func startFault(_ context.Context, cmd *fake.Command) error {
	switch {
	case cmd.Dir == "/missing":
		return &backend.StartError{Reason: backend.BadDirectory, Path: cmd.Dir}
	case cmd.Shell == "no-shell":
		return &backend.StartError{Reason: backend.NotFound, Path: "sh"}
	case cmd.Shell == "no-memory":
		// What it wraps besides is told to nobody outside.
		return fmt.Errorf("%w: dial unix /run/engine.sock", &backend.StartError{Reason: backend.NoResources})
	case len(cmd.Getenv("BIG")) > 100:
		return &backend.StartError{Reason: backend.TooLong}
	}
	return nil
}

// starts returns what was started.
func (w *testServer) starts() []string {
	var texts []string
	for _, call := range w.backend.Calls() {
		if call.Op == fake.OpStart {
			texts = append(texts, call.Command.String())
		}
	}
	return texts
}

// sandbox makes a sandbox of the sandboxes API and returns its id.
func (w *testServer) sandbox(t testing.TB, owner string) string {
	t.Helper()
	sb, err := w.manager.Create(t.Context(), sandbox.Key{Owner: owner, Namespace: httpapi.Sandboxes}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sb.ID()
}

// request returns a request of owner a.
func request(ctx context.Context, t testing.TB, method, path, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://server"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer key-a")
	return r
}

// do makes a request of owner a and returns the status code and the body.
func (w *testServer) do(t testing.TB, method, path, body string) (int, string) {
	t.Helper()
	resp, err := w.client.Do(request(t.Context(), t, method, path, body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}

// inBubble runs f as a subtest in virtual time.
func inBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// A pipeListener is a network of its own, which a synctest bubble can wait for.
type pipeListener struct {
	conns  chan net.Conn
	closed context.Context
	close  context.CancelFunc
}

func newPipeListener() *pipeListener {
	l := &pipeListener{conns: make(chan net.Conn)}
	l.closed, l.close = context.WithCancel(context.Background())
	return l
}

func (l *pipeListener) dial() (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- halfCloser{server}:
		return client, nil
	case <-l.closed.Done():
		return nil, net.ErrClosed
	}
}

// A halfCloser can close its writing side, as a TCP connection does: the other side is
// not told here.
type halfCloser struct{ net.Conn }

func (halfCloser) CloseWrite() error { return nil }

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed.Done():
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.close(); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
