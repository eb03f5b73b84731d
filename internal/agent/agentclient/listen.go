package agentclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox/internal/agent/shared/mux"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/relay"
)

// A Listener listens in a container, by the rules of [backend.Listener]. It outlasts the
// connection to an agent: each Conn whose Options have it listens for it, on the same
// port. Its methods may be called concurrently.
type Listener struct {
	conns chan net.Conn
	done  chan struct{}
	close func()

	mu    sync.Mutex      // guards what follows
	port  int             // 0 while nobody has listened
	ended <-chan struct{} // closed when nobody listens any more; nil before
}

// NewListener returns a Listener. Close it when the container is gone.
func NewListener() *Listener {
	l := &Listener{conns: make(chan net.Conn), done: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.done) })
	return l
}

// Accept returns the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends the listening. Connections that were accepted go on.
func (l *Listener) Close() error {
	l.close()
	return nil
}

// Addr returns the address in the container, once a Conn has listened.
func (l *Listener) Addr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: l.port}
}

// listen has the agent listen for l for as long as the connection lasts.
func (c *Conn) listen(ctx context.Context, l *Listener) error {
	stream, err := c.open(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { stream.SetDeadline(time.Unix(1, 0)) })
	request := &wire.Listen{Port: l.begin(ctx)}
	if c.handed != nil {
		request.ID = int(c.numbers.Add(1))
		defer c.handed.expect(request.ID)()
	}
	go wire.Write(stream, request) // it may wait for the connection; reading notices that it failed
	m, err := wire.NewReader(stream).Next()
	answer, ok := m.(*wire.Listening)
	switch {
	case !stop():
		err = ctx.Err()
	case err != nil:
	case !ok:
		err = errors.New("unexpected answer")
	case answer.Why != "":
		err = errors.New(answer.Why)
	}
	var end io.Closer = stream
	accept := c.accept
	if err == nil && request.ID > 0 {
		var socket *net.TCPListener
		if socket, err = c.handed.listener(request.ID); err == nil {
			end, accept = socket, func() (net.Conn, error) { return c.acceptFrom(socket) }
		}
	}
	if err != nil || request.ID > 0 {
		go stream.Close()
	}
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	ended := make(chan struct{})
	l.mu.Lock()
	l.port, l.ended = answer.Port, ended
	l.mu.Unlock()
	c.tasks.Go(func() {
		defer close(ended)
		select {
		case <-l.done:
		case <-c.Done():
		}
		end.Close()
	})
	c.tasks.Go(func() {
		for {
			conn, err := relay.Accept(ended, accept)
			if err != nil {
				return
			}
			l.hand(c, conn)
		}
	})
	return nil
}

// begin waits until an earlier connection's listening has ended, and returns the port to listen
// on.
func (l *Listener) begin(ctx context.Context) (port int) {
	l.mu.Lock()
	port, ended := l.port, l.ended
	l.mu.Unlock()
	if ended != nil {
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}
	return port
}

// accept accepts a stream of the agent's.
func (c *Conn) accept() (net.Conn, error) {
	stream, err := c.session.AcceptStream()
	if err != nil {
		return nil, err
	}
	return mux.NewConn(stream), nil
}

// acceptFrom accepts a connection of a listener that was handed over.
func (c *Conn) acceptFrom(socket *net.TCPListener) (net.Conn, error) {
	conn, err := socket.AcceptTCP()
	if err != nil {
		return nil, err
	}
	return c.sockets.add(conn), nil
}

// hand hands a connection to who accepts. What comes after l has ended is closed.
func (l *Listener) hand(c *Conn, conn net.Conn) {
	select {
	case l.conns <- conn:
	case <-l.done:
		go conn.Close() // it may wait for the connection to the agent
	case <-c.Done():
	}
}
