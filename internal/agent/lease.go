package agent

import (
	"bufio"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-go/sandbox/internal/agent/wire"
)

// A stream carries one execution after the other: opening one takes messages of
// its own.
type stream struct {
	*yamux.Stream
	reader *wire.Reader
}

// maxIdleStreams is how many streams are kept for executions to come.
const maxIdleStreams = 16

// A lease is a stream while one execution has it. Its methods may be called
// concurrently, but for next.
type lease struct {
	conn   *Conn
	stream *stream

	mu      sync.Mutex // guards what follows
	sending int        // messages that are being sent
	over    bool       // the stream may be another's
}

// lease returns a stream on which nothing is going on.
func (c *Conn) lease() (*lease, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		s := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return &lease{conn: c, stream: s}, nil
	}
	c.mu.Unlock()
	s, err := c.session.OpenStream()
	if err != nil {
		return nil, err
	}
	return &lease{conn: c, stream: &stream{s, wire.NewReader(bufio.NewReader(s))}}, nil
}

// keep takes a stream on which nothing is going on.
func (c *Conn) keep(s *stream) {
	s.Shrink()
	c.mu.Lock()
	keep := len(c.idle) < maxIdleStreams
	if keep {
		c.idle = append(c.idle, s)
	}
	c.mu.Unlock()
	if !keep {
		s.Close()
	}
}

// next returns the next message from the agent.
func (l *lease) next() (wire.Message, error) { return l.stream.reader.Next() }

// send sends a message to the agent, unless that could be taken for one about the
// next execution on the stream.
func (l *lease) send(m wire.Message) error {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return os.ErrProcessDone
	}
	l.sending++
	l.mu.Unlock()
	err := wire.Write(l.stream, m)
	l.mu.Lock()
	l.sending--
	l.mu.Unlock()
	return err
}

// expire has next fail when nothing has come for d.
func (l *lease) expire(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.stream.SetReadDeadline(time.Now().Add(d))
	}
}

// release gives the stream up. It is clean when nothing more will come on it.
func (l *lease) release(clean bool) {
	l.mu.Lock()
	l.over = true
	clean = clean && l.sending == 0
	l.mu.Unlock()
	if clean {
		l.stream.SetReadDeadline(time.Time{}) // expire may just have set one
		l.conn.keep(l.stream)
	} else {
		l.stream.Close()
	}
}
