package agentclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-go/sandbox/internal/agent/shared/mux"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// A Listener listens in a container, by the rules of [backend.Listener]. It outlasts the
// connection to an agent: each Conn whose Options have it listens for it, on the same
// port. Its methods may be called concurrently.
type Listener struct {
	conns chan net.Conn
	done  chan struct{}
	close func()

	mu   sync.Mutex // guards port
	port int        // 0 while nobody has listened
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
	l.mu.Lock()
	port := l.port
	l.mu.Unlock()
	go wire.Write(stream, &wire.Listen{Port: port}) // it may wait for the connection; reading notices that it failed
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
	if err != nil {
		go stream.Close()
		return fmt.Errorf("listen: %w", err)
	}
	l.mu.Lock()
	l.port = answer.Port
	l.mu.Unlock()
	c.tasks.Go(func() {
		select {
		case <-l.done:
			stream.Close()
		case <-c.Done():
		}
	})
	c.tasks.Go(func() { c.accept(l) })
	return nil
}

// accept hands the streams that the agent opens to l. What comes after l has ended is
// closed.
func (c *Conn) accept(l *Listener) {
	for {
		stream, err := c.session.AcceptStream()
		if err != nil {
			return
		}
		l.hand(c, stream)
	}
}

func (l *Listener) hand(c *Conn, stream *yamux.Stream) {
	select {
	case l.conns <- mux.NewConn(stream):
	case <-l.done:
		go stream.Close() // it may wait for the connection
	case <-c.Done():
	}
}
