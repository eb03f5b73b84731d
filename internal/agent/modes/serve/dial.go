//go:build linux && (amd64 || arm64)

package serve

import (
	"errors"
	"net"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-go/sandbox/internal/agent/shared/mux"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/relay"
)

// dial makes a stream a connection to a port of the container, and returns when it
// has ended in both directions.
func dial(stream *yamux.Stream, port int) {
	defer stream.Close()
	conn, err := reach(port, 0)
	if err != nil {
		wire.Write(stream, &wire.Dialed{Refused: errors.Is(err, unix.ECONNREFUSED), Why: err.Error()})
		return
	}
	if wire.Write(stream, &wire.Dialed{}) != nil {
		conn.Close()
		return
	}
	relay.Both(mux.NewConn(stream), conn)
}

// reach connects to a port of the loopback address, within that time for each; 0 is no
// bound.
func reach(port int, within time.Duration) (conn net.Conn, err error) {
	for _, ip := range []string{"::1", "127.0.0.1"} {
		conn, err = net.DialTimeout("tcp", net.JoinHostPort(ip, strconv.Itoa(port)), within)
		if err == nil {
			return conn, nil
		}
	}
	return nil, err
}
