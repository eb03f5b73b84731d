package backend

import (
	"context"
	"errors"
	"net"
)

// A Dialer is an Instance whose commands can be connected to. Package sandbox
// looks for it.
type Dialer interface {
	// Dial connects to a TCP port that a command of the sandbox listens on, on
	// the loopback address, also where the sandbox has no network. Only the
	// sandbox's own ports are reachable. The context covers the dialling. When
	// nobody listens, the error wraps ErrRefused. The connection ends with the
	// sandbox. It has a method CloseWrite, as a *net.TCPConn has: the command sees
	// the end of what it is sent, and may still answer.
	Dial(ctx context.Context, port int) (net.Conn, error)
}

// ErrRefused: nobody in the sandbox listens on that port.
var ErrRefused = errors.New("connection refused")
