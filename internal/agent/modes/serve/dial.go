//go:build linux && (amd64 || arm64)

package serve

import (
	"errors"
	"io"
	"net"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/framing"
)

// dial makes a stream a connection to a port of the container, and returns when it
// has ended in both directions.
func dial(stream *yamux.Stream, port int) {
	defer stream.Close()
	conn, err := reach(port)
	if err != nil {
		wire.Write(stream, &wire.Dialed{Refused: errors.Is(err, unix.ECONNREFUSED), Why: err.Error()})
		return
	}
	defer conn.Close()
	if wire.Write(stream, &wire.Dialed{}) != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := io.Copy(conn, framing.NewReader(stream)); err != nil {
			conn.Close()
		}
		conn.(*net.TCPConn).CloseWrite()
	})
	both.Go(func() {
		if framing.Copy(stream, conn) != nil {
			conn.Close()
			stream.Close() // without an end: it was broken off
		}
	})
	both.Wait()
}

// reach connects to a port of the loopback address.
func reach(port int) (conn net.Conn, err error) {
	for _, ip := range []string{"::1", "127.0.0.1"} {
		conn, err = net.Dial("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
		if err == nil {
			return conn, nil
		}
	}
	return nil, err
}
