package mux

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-go/sandbox/internal/framing"
)

// A Conn is a stream as a connection, whose directions end apart from each other. One
// that is closed without CloseWrite is broken off for the other side, and no end.
type Conn struct {
	*yamux.Stream
	in *framing.Reader

	mu    sync.Mutex // makes each write one
	out   *framing.Writer
	ended bool
}

// NewConn returns a stream as a connection. The other side has to use one too.
func NewConn(stream *yamux.Stream) *Conn {
	return &Conn{Stream: stream, in: framing.NewReader(stream), out: framing.NewWriter(stream)}
}

func (c *Conn) Read(p []byte) (int, error) { return c.in.Read(p) }

func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return 0, net.ErrClosed
	}
	return c.out.Write(p)
}

// CloseWrite ends what is sent.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	c.ended = true
	return framing.End(c.Stream)
}

// Close ends a Read that waits, too.
func (c *Conn) Close() error {
	err := c.Stream.Close()
	c.SetReadDeadline(time.Unix(1, 0))
	return err
}
