package fake

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"

	"github.com/sandbox-go/sandbox/backend"
)

var (
	_ backend.Dialer   = (*instance)(nil)
	_ backend.Listener = (*instance)(nil)
)

// Listen has the process listen on a TCP port of its sandbox, as http.Serve wants
// it. The listener and its connections are closed when the process ends. It fails
// when somebody listens there already.
func (p *Process) Listen(port int) (net.Listener, error) {
	p.alive()
	return p.command.inst.listen(port, p)
}

// Dial connects to a TCP port of the sandbox's loopback address, as net.Dialer's
// DialContext does: to the port of another process that listens, or to the proxy that
// HTTP_PROXY names where there is a Config.Egress. There is nothing else to connect to.
// The connection is closed when the process ends.
func (p *Process) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	p.alive()
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("fake: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
		return nil, fmt.Errorf("fake: %s: %w", address, syscall.ENETUNREACH)
	}
	port, err := strconv.Atoi(service)
	if err != nil {
		return nil, fmt.Errorf("fake: %w", err)
	}
	conn, err := p.command.inst.dial(ctx, port)
	p.alive()
	if err != nil {
		return nil, err
	}
	return tie(conn, p.dead, p.gone), nil
}

// egressPort is that of an instance's listener.
const egressPort = 32768

// Listen returns the listener for what processes connect to by Process.Dial.
func (i *instance) Listen(ctx context.Context) (net.Listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return i.listen(egressPort, nil)
}

// listen has somebody listen on a port: a process, or the service if that is nil.
func (i *instance) listen(port int, p *Process) (*listener, error) {
	dead, gone := i.gone, i.ended
	if p != nil {
		dead, gone = p.dead, p.gone
	}
	l := &listener{
		dead:  dead,
		gone:  gone,
		port:  port,
		conns: make(chan net.Conn),
		done:  make(chan struct{}),
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
		case <-dead:
		case <-gone:
		case <-l.done:
		}
		l.close()
	}()
	return l, nil
}

// Dial connects to a port that a process listens on.
func (i *instance) Dial(ctx context.Context, port int) (net.Conn, error) {
	conn, err := i.dial(ctx, port)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

func (i *instance) dial(ctx context.Context, port int) (*end, error) {
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
	case l.conns <- tie(theirs, l.dead, l.gone):
		return ours, nil
	case <-l.done:
		return nil, fmt.Errorf("fake: port %d: %w", port, backend.ErrRefused)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A listener is a port that a process, or the service, listens on.
type listener struct {
	dead, gone <-chan struct{} // of who listens: the first that is closed ends it
	port       int
	conns      chan net.Conn
	done       chan struct{}
	close      func()
}

// tie has the connection end with the first of two channels that is closed.
func tie(c *end, dead, gone <-chan struct{}) net.Conn {
	t := &tied{end: c, closed: make(chan struct{})}
	t.once = sync.OnceValue(func() error {
		close(t.closed)
		return c.Close()
	})
	go func() {
		select {
		case <-dead:
			t.Close()
		case <-gone:
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
