package agentclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/framing"
)

// Dial connects to a TCP port in the container, by the rules of [backend.Dialer].
func (c *Conn) Dial(ctx context.Context, port int) (net.Conn, error) {
	stream, err := c.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { stream.SetDeadline(time.Unix(1, 0)) })
	go wire.Write(stream, &wire.Dial{Port: port}) // it may wait for the connection; reading notices that it failed
	var m wire.Message
	m, err = wire.NewReader(stream).Next()
	if answer, ok := m.(*wire.Dialed); ok {
		switch {
		case answer.Refused:
			err = fmt.Errorf("port %d: %w", port, backend.ErrRefused)
		case answer.Why != "":
			err = errors.New(answer.Why)
		}
	} else if err == nil {
		err = errors.New("unexpected answer")
	}
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		go stream.Close()
		return nil, c.explain(fmt.Errorf("agent: %w", err))
	}
	return &connection{Stream: stream, in: framing.NewReader(stream), out: framing.NewWriter(stream)}, nil
}

// A connection is a stream whose directions end apart from each other.
type connection struct {
	*yamux.Stream
	in *framing.Reader

	mu    sync.Mutex // makes each write one
	out   *framing.Writer
	ended bool
}

func (c *connection) Read(p []byte) (int, error) { return c.in.Read(p) }

func (c *connection) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return 0, net.ErrClosed
	}
	return c.out.Write(p)
}

// CloseWrite ends what is sent.
func (c *connection) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	c.ended = true
	return framing.End(c.Stream)
}

// Close ends a Read that waits, too.
func (c *connection) Close() error {
	err := c.Stream.Close()
	c.SetReadDeadline(time.Unix(1, 0))
	return err
}
