package backendtest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// A dialFault dials otherwise than a Dialer does.
type dialFault func(ctx context.Context, d backend.Dialer, port int) (net.Conn, error)

// portFaults are those of backends with ports.
func portFaults() []fault {
	return []fault{
		{name: "context-bounds-the-connection", caughtBy: "a-port-is-reached", dial: func(ctx context.Context, d backend.Dialer, port int) (net.Conn, error) {
			conn, err := d.Dial(ctx, port)
			if err == nil {
				context.AfterFunc(ctx, func() { conn.Close() })
			}
			return conn, err
		}},
		{name: "bytes-changed", caughtBy: "a-connection-carries-all", dial: changed(func(c *otherConn) {
			c.read = func(p []byte, n int, err error) (int, error) {
				copy(p[:n], bytes.ReplaceAll(p[:n], []byte("\n7"), []byte("\n8")))
				return n, err
			}
		})},
		{name: "halves-not-apart", caughtBy: "a-connection-carries-all", dial: changed(func(c *otherConn) { c.closeWrite = c.Conn.Close })},
		{name: "half-not-closed", caughtBy: "a-connection-is-closed-by-halves", dial: changed(func(c *otherConn) {
			c.closeWrite = func() error { return errors.ErrUnsupported }
		})},
		{name: "no-deadlines", caughtBy: "a-connection-has-deadlines", dial: changed(func(c *otherConn) {
			c.deadline = func(time.Time) error { return errors.ErrUnsupported }
		})},
		{name: "refusal-untyped", caughtBy: "nobody-listens", dial: func(ctx context.Context, d backend.Dialer, port int) (net.Conn, error) {
			conn, err := d.Dial(ctx, port)
			if errors.Is(err, backend.ErrRefused) {
				err = errors.New("connection refused")
			}
			return conn, err
		}},
		{name: "connection-hangs", caughtBy: "a-connection-ends-with-what-it-leads-to", dial: changed(func(c *otherConn) {
			c.read = func(_ []byte, n int, err error) (int, error) {
				if err != nil {
					return 0, os.ErrDeadlineExceeded
				}
				return n, nil
			}
		})},
		{name: "ports-shared", caughtBy: "ports-are-apart", dial: dialAny()},
		{name: "connection-leaks", caughtBy: "connections-leave-nothing", dial: func(ctx context.Context, d backend.Dialer, port int) (net.Conn, error) {
			go leak()
			return d.Dial(ctx, port)
		}},
	}
}

// A listenFault changes what a Listener listens with.
type listenFault func(net.Listener) net.Listener

// egressFaults are those of backends with egress.
func egressFaults() []fault {
	return []fault{
		{name: "egress-ignored", caughtBy: "egress-is-held-or-refused", info: func(i *backend.Info) { i.Egress = false }},
		{name: "egress-promised", caughtBy: "egress-is-held-or-refused", create: func(_ context.Context, cfg *backend.Config) {
			if cfg.Egress != nil {
				cfg.Image = "refused"
			}
		}},
		{name: "outgoing-bytes-changed", caughtBy: "a-listener-is-reached", listen: accepting(func(c *otherConn) {
			c.read = func(p []byte, n int, err error) (int, error) {
				copy(p[:n], bytes.ReplaceAll(p[:n], []byte("\n7"), []byte("\n8")))
				return n, err
			}
		})},
		{name: "outgoing-halves-not-apart", caughtBy: "a-listeners-connection-is-closed-by-halves", listen: accepting(func(c *otherConn) {
			c.closeWrite = func() error { return nil }
		})},
		{name: "outgoing-without-deadlines", caughtBy: "a-listeners-connection-has-deadlines", listen: accepting(func(c *otherConn) {
			c.deadline = func(time.Time) error { return errors.ErrUnsupported }
		})},
		{name: "outgoing-hangs", caughtBy: "a-listener-ends", listen: accepting(func(c *otherConn) {
			c.read = func(_ []byte, n int, err error) (int, error) {
				if err != nil {
					return 0, os.ErrDeadlineExceeded
				}
				return n, nil
			}
		})},
		{name: "listener-ends-untyped", caughtBy: "a-listener-ends", listen: func(l net.Listener) net.Listener {
			return &otherListener{l, func() (net.Conn, error) {
				conn, err := l.Accept()
				if err != nil {
					err = errors.New("use of closed network connection")
				}
				return conn, err
			}}
		}},
		{name: "listeners-shared", caughtBy: "egress-has-one-way-out", listen: acceptAny()},
		{name: "proxy-not-told", caughtBy: "egress-is-decided", start: func(s *backend.Spec) { s.Env = nil }},
		{name: "outgoing-leaks", caughtBy: "egress-leaves-nothing", listen: accepting(func(*otherConn) { go leak() })},
	}
}

// otherListener is a listener with another Accept.
type otherListener struct {
	net.Listener
	accept func() (net.Conn, error)
}

func (l *otherListener) Accept() (net.Conn, error) { return l.accept() }

// accepting changes each connection that a listener accepts.
func accepting(change func(*otherConn)) listenFault {
	return func(l net.Listener) net.Listener {
		return &otherListener{l, func() (net.Conn, error) {
			conn, err := l.Accept()
			if err != nil {
				return nil, err
			}
			other := &otherConn{Conn: conn}
			change(other)
			return other, nil
		}}
	}
}

// acceptAny has every listener but the first accept what comes to the one before it.
func acceptAny() listenFault {
	var mu sync.Mutex // guards last
	var last net.Listener
	return func(l net.Listener) net.Listener {
		mu.Lock()
		defer mu.Unlock()
		before := last
		last = l
		if before == nil {
			return l
		}
		return &otherListener{l, before.Accept}
	}
}

// terminalFaults are those of backends with terminals.
func terminalFaults() []fault {
	typed := func(change func([]byte) []byte) func(*backend.Spec) {
		return func(s *backend.Spec) {
			if s.Stdin != nil {
				s.Stdin = changedInput{s.Stdin, change}
			}
		}
	}
	return []fault{
		{name: "newlines-kept", caughtBy: "a-terminal-is-one-stream", start: edit(func(p []byte) []byte {
			return bytes.ReplaceAll(p, []byte("\r\n"), []byte("\n"))
		})},
		{name: "terminal-ignored", caughtBy: "a-terminal-is-one-stream", start: func(s *backend.Spec) { s.Terminal = nil }},
		{name: "first-size-ignored", caughtBy: "a-terminal-has-a-size", start: func(s *backend.Spec) {
			s.Terminal = &backend.TerminalSize{}
		}},
		{name: "new-size-ignored", caughtBy: "a-terminal-has-a-size", process: func(p backend.Process) backend.Process {
			return &broken{Process: p, resize: func() error { return nil }}
		}},
		{name: "resize-of-the-dead", caughtBy: "a-process-on-a-terminal-is-a-resizer", process: func(p backend.Process) backend.Process {
			return &broken{Process: p, resize: func() error { return nil }}
		}},
		{name: "no-resizer", caughtBy: "a-process-on-a-terminal-is-a-resizer", process: func(p backend.Process) backend.Process {
			return struct{ backend.Process }{p}
		}},
		{name: "cr-kept", caughtBy: "a-terminal-echoes", start: edit(func(p []byte) []byte {
			return bytes.ReplaceAll(p, []byte("one\r\n"), []byte("one\r"))
		})},
		{name: "end-of-input-lost", caughtBy: "the-end-of-a-terminals-input", start: func(s *backend.Spec) {
			s.Stdin = io.MultiReader(s.Stdin, endless{})
		}},
		{name: "keys-are-bytes", caughtBy: "ctrl-c-interrupts", start: typed(func(p []byte) []byte {
			return bytes.ReplaceAll(p, []byte("\x03"), nil)
		})},
		{name: "last-output-lost", caughtBy: "the-last-output-is-not-lost", start: edit(func(p []byte) []byte {
			return bytes.TrimSuffix(p, []byte("end"))
		})},
		{name: "terminal-drops-what-is-much", caughtBy: "a-terminal-carries-all", start: edit(func(p []byte) []byte {
			return p[:min(len(p), 1000)]
		})},
		{name: "line-lost", caughtBy: "a-kill-ends-all-on-a-terminal", start: edit(func(p []byte) []byte {
			return bytes.TrimSuffix(p, []byte("x\r\n"))
		})},
	}
}

// otherConn is a connection of which some methods are others.
type otherConn struct {
	net.Conn
	read       func(p []byte, n int, err error) (int, error)
	deadline   func(time.Time) error
	closeWrite func() error
}

func (c *otherConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.read != nil {
		return c.read(p, n, err)
	}
	return n, err
}

func (c *otherConn) SetReadDeadline(t time.Time) error {
	if c.deadline != nil {
		return c.deadline(t)
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *otherConn) CloseWrite() error {
	if c.closeWrite != nil {
		return c.closeWrite()
	}
	return c.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

// changed changes each connection.
func changed(change func(*otherConn)) dialFault {
	return func(ctx context.Context, d backend.Dialer, port int) (net.Conn, error) {
		conn, err := d.Dial(ctx, port)
		if err != nil {
			return nil, err
		}
		other := &otherConn{Conn: conn}
		change(other)
		return other, nil
	}
}

// dialAny dials whoever listens, in any sandbox that was ever dialled.
func dialAny() dialFault {
	var mu sync.Mutex // guards all
	all := make(map[backend.Dialer]bool)
	return func(ctx context.Context, d backend.Dialer, port int) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		all[d] = true
		for other := range all {
			if conn, err := other.Dial(ctx, port); err == nil {
				return conn, nil
			}
		}
		return nil, backend.ErrRefused
	}
}

// changedInput is an input of which each piece is changed.
type changedInput struct {
	io.Reader
	change func([]byte) []byte
}

func (c changedInput) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	return copy(p, c.change(p[:n])), err
}
