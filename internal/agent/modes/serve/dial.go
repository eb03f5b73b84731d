//go:build linux && (amd64 || arm64)

package serve

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-go/sandbox/internal/agent/shared/mux"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/relay"
)

// dial makes a stream a connection to a port of the container, and returns when it
// has ended in both directions; or it hands the connection over.
func (c *container) dial(stream *yamux.Stream, m *wire.Dial) {
	defer stream.Close()
	conn, err := reach(m.Port, 0)
	if err == nil && m.ID > 0 {
		err = withFD(conn, func(fd int) error { return c.handing.send(&wire.Handed{Number: m.ID, Count: 1}, fd) })
		conn.Close()
	}
	if err != nil {
		wire.Write(stream, &wire.Dialed{Refused: errors.Is(err, unix.ECONNREFUSED), Why: err.Error()})
		return
	}
	if wire.Write(stream, &wire.Dialed{}) != nil {
		conn.Close()
		return
	}
	if m.ID == 0 {
		relay.Both(mux.NewConn(stream), conn)
	}
}

// reach connects to a port of the loopback address, within that time for each; 0 is no
// bound.
func reach(port int, within time.Duration) (*net.TCPConn, error) {
	var err error
	for _, ip := range []string{"::1", "127.0.0.1"} {
		var conn net.Conn
		if conn, err = net.DialTimeout("tcp", net.JoinHostPort(ip, strconv.Itoa(port)), within); err == nil {
			return conn.(*net.TCPConn), nil
		}
	}
	return nil, err
}

// withFD calls do with the descriptor of a socket.
func withFD(socket syscall.Conn, do func(fd int) error) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	controlErr := raw.Control(func(fd uintptr) { err = do(int(fd)) })
	return errors.Join(controlErr, err)
}
