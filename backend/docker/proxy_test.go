package docker_test

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"
)

// A proxy stands between a backend and the engine, so that the way between them
// can be cut, or fall silent.
type proxy struct {
	host   string // its own address
	engine string // the engine's socket

	mu      sync.Mutex // guards what follows
	down    bool
	trigger []byte // what a request begins with that is the last to get through
	conns   map[net.Conn]bool
	mute    []string      // the paths of requests whose answers do not get through
	over    chan struct{} // closed to end the connections that are held open
}

func newProxy(tb testing.TB, api *client.Client) *proxy {
	tb.Helper()
	socket, ok := strings.CutPrefix(api.DaemonHost(), "unix://")
	if !ok {
		tb.Skip("the engine is not on a unix socket")
	}
	path := filepath.Join(tb.TempDir(), "engine.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{host: "unix://" + path, engine: socket, conns: make(map[net.Conn]bool), over: make(chan struct{})}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			done.Go(func() { p.serve(conn) })
		}
	})
	tb.Cleanup(func() {
		l.Close()
		close(p.over)
		p.cut()
		done.Wait()
	})
	return p
}

// serve carries one connection.
func (p *proxy) serve(conn net.Conn) {
	defer conn.Close()
	engine, err := net.Dial("unix", p.engine)
	if err != nil {
		return
	}
	defer engine.Close()
	p.mu.Lock()
	if p.down {
		p.mu.Unlock()
		return
	}
	p.conns[conn], p.conns[engine] = true, true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, conn)
		delete(p.conns, engine)
		p.mu.Unlock()
	}()
	c := &exchange{p: p, client: conn, engine: engine}
	var both sync.WaitGroup
	both.Go(func() {
		io.Copy(requests{c}, conn)
		engine.(*net.UnixConn).CloseWrite()
	})
	both.Go(func() {
		io.Copy(answers{c}, engine)
		c.hold()
		conn.(*net.UnixConn).CloseWrite()
	})
	both.Wait()
}

// cut breaks every connection and refuses new ones.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for conn := range p.conns {
		conn.Close()
	}
}

// restore lets connections through again.
func (p *proxy) restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down, p.trigger = false, nil
}

// cutAfter cuts when the engine answers a request whose line has path in it.
func (p *proxy) cutAfter(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trigger = []byte(path)
}

// silence lets no answer to a request for one of these paths through any more, nor the
// end of its connection.
func (p *proxy) silence(paths ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = paths
}

// An exchange is one connection of a client, and the one to the engine for it.
type exchange struct {
	p      *proxy
	client net.Conn
	engine net.Conn
	line   []byte // of its last request; guarded by p.mu
}

// hold returns when answers may get through, and reports whether the way is cut.
func (c *exchange) hold() (cut bool) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if slices.ContainsFunc(c.p.mute, func(path string) bool { return bytes.Contains(c.line, []byte(path)) }) {
		c.p.mu.Unlock()
		<-c.p.over
		c.p.mu.Lock()
	}
	return c.p.down
}

// requests passes a connection's requests on and looks for the trigger.
type requests struct{ *exchange }

func (r requests) Write(b []byte) (int, error) {
	r.p.mu.Lock()
	if line, _, ok := bytes.Cut(b, []byte(" HTTP/1.1\r\n")); ok {
		r.line = bytes.Clone(line)
		if r.p.trigger != nil && bytes.Contains(line, r.p.trigger) {
			r.p.down = true
		}
	}
	r.p.mu.Unlock()
	return r.engine.Write(b)
}

// answers passes a connection's answers on, unless the way was cut.
type answers struct{ *exchange }

func (a answers) Write(b []byte) (int, error) {
	if a.hold() {
		a.p.cut()
		return 0, net.ErrClosed
	}
	return a.client.Write(b)
}
