package agentclient

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// A stream carries one execution after the other: opening one takes messages of
// its own.
type stream struct {
	*yamux.Stream
	reader *wire.Reader
}

// streamBuffer is how much is read of a stream at once, in bytes: a few of the messages
// about a command. What is longer is read past it.
const streamBuffer = 512

// maxIdleStreams is how many streams are kept for executions to come.
const maxIdleStreams = 16

// A streamLease is a stream while one execution has it. It is the peer.Link of that.
type streamLease struct {
	conn    *Conn
	stream  *stream
	started chan struct{} // closed when nothing comes before what Send sends
}

// lease returns a stream on which nothing is going on.
func (c *Conn) lease(ctx context.Context) (*streamLease, error) {
	if c.session.IsClosed() {
		return nil, ErrEnded
	}
	l := &streamLease{conn: c, started: make(chan struct{})}
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		l.stream = c.idle[n-1]
		c.idle = c.idle[:n-1]
	}
	c.mu.Unlock()
	if l.stream == nil {
		s, err := c.open(ctx)
		if err != nil {
			return nil, err
		}
		l.stream = &stream{s, wire.NewReader(bufio.NewReaderSize(s, streamBuffer))}
	}
	return l, nil
}

// open opens a stream, which may wait for the connection to take what has been sent.
func (c *Conn) open(ctx context.Context) (*yamux.Stream, error) {
	var s *yamux.Stream
	var err error
	opened := make(chan struct{}) // closed when s and err are set
	go func() {
		defer close(opened)
		s, err = c.session.OpenStream()
	}()
	select {
	case <-opened:
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrEnded, err)
		}
		return s, nil
	case <-ctx.Done():
		go func() {
			if <-opened; err == nil {
				s.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// keep takes a stream on which nothing is going on.
func (c *Conn) keep(s *stream) {
	s.Shrink()
	s.reader.Shrink()
	c.mu.Lock()
	keep := len(c.idle) < maxIdleStreams
	if keep {
		c.idle = append(c.idle, s)
	}
	c.mu.Unlock()
	if !keep {
		go s.Close()
	}
}

// next returns the next message from the agent.
func (l *streamLease) next() (wire.Message, error) { return l.stream.reader.Next() }

// start sends the frame of a Start, before all else and without waiting for it.
func (l *streamLease) start(frame []byte) {
	go func() {
		defer close(l.started)
		l.stream.Write(frame) // who reads notices that it failed
	}()
}

// Send implements [peer.Link].
func (l *streamLease) Send(m wire.Message) error {
	<-l.started
	return wire.Write(l.stream, m)
}

// Abort implements [peer.Link].
func (l *streamLease) Abort() { l.stream.SetReadDeadline(time.Unix(1, 0)) }

// release gives the stream up. It is clean when nothing more will come on it. Closing
// one may wait for the connection.
func (l *streamLease) release(clean bool) {
	if clean {
		l.conn.keep(l.stream)
	} else {
		go l.stream.Close()
	}
}
