package fake

import (
	"errors"
	"net"
	"time"
)

// connection returns the two ends of a connection. Each direction is a pipe of its
// own, so that one can end before the other.
func connection() (one, other *end) {
	there, here := net.Pipe()
	back, forth := net.Pipe()
	return &end{Conn: back, out: there}, &end{Conn: here, out: forth}
}

// An end reads from its Conn.
type end struct {
	net.Conn
	out net.Conn
}

func (e *end) Write(b []byte) (int, error) { return e.out.Write(b) }
func (e *end) CloseWrite() error           { return e.out.Close() }
func (e *end) Close() error                { return errors.Join(e.out.Close(), e.Conn.Close()) }

func (e *end) SetDeadline(t time.Time) error {
	return errors.Join(e.out.SetDeadline(t), e.Conn.SetDeadline(t))
}
func (e *end) SetWriteDeadline(t time.Time) error { return e.out.SetWriteDeadline(t) }
