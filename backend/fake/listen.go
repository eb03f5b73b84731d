package fake

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/sandbox-go/sandbox/backend"
)

var _ backend.Dialer = (*instance)(nil)

// Listen has the process listen on a TCP port of its sandbox, as http.Serve wants
// it. The listener and its connections are closed when the process ends. It fails
// when somebody listens there already.
func (p *Process) Listen(port int) (net.Listener, error) {
	p.alive()
	i := p.command.inst
	l := &listener{
		process: p,
		port:    port,
		conns:   make(chan net.Conn),
		done:    make(chan struct{}),
	}
	l.close = sync.OnceFunc(func() {
		i.mu.Lock()
		delete(i.ports, port)
		i.mu.Unlock()
		close(l.done)
	})
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ports[port] != nil {
		return nil, fmt.Errorf("fake: somebody listens on port %d already", port)
	}
	i.ports[port] = l
	go func() {
		select {
		case <-p.dead:
		case <-p.gone:
		case <-l.done:
		}
		l.close()
	}()
	return l, nil
}

// Dial connects to a port that a process listens on.
func (i *instance) Dial(ctx context.Context, port int) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	i.mu.Lock()
	l := i.ports[port]
	i.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("fake: port %d: %w", port, backend.ErrRefused)
	}
	ours, theirs := connection()
	select {
	case l.conns <- l.tie(theirs):
		return ours, nil
	case <-l.done:
		return nil, fmt.Errorf("fake: port %d: %w", port, backend.ErrRefused)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A listener is a port that a process listens on.
type listener struct {
	process *Process
	port    int
	conns   chan net.Conn
	done    chan struct{}
	close   func()
}

// tie has the connection end with the listener's process.
func (l *listener) tie(c *end) net.Conn {
	t := &tied{end: c, closed: make(chan struct{})}
	t.once = sync.OnceValue(func() error {
		close(t.closed)
		return c.Close()
	})
	go func() {
		select {
		case <-l.process.dead:
			t.Close()
		case <-l.process.gone:
			t.Close()
		case <-t.closed:
		}
	}()
	return t
}

type tied struct {
	*end
	closed chan struct{}
	once   func() error
}

func (t *tied) Close() error { return t.once() }

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.close()
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: l.port} }
