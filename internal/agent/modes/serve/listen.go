//go:build linux && (amd64 || arm64)

package serve

import (
	"errors"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-go/sandbox/internal/agent/shared/mux"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/relay"
)

// listen listens on a port of the loopback address for as long as stream lasts, and makes
// each connection a stream of its own. What it carries, it does not look at.
func listen(session *yamux.Session, stream *yamux.Stream, port int) {
	defer stream.Close()
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		wire.Write(stream, &wire.Listening{Why: err.Error()})
		return
	}
	defer l.Close()
	if wire.Write(stream, &wire.Listening{Port: l.Addr().(*net.TCPAddr).Port}) != nil {
		return
	}
	go accept(session, l)
	io.Copy(io.Discard, stream)
}

// acceptPause is how long accept waits when it has no descriptor for a connection.
const acceptPause = 10 * time.Millisecond

func accept(session *yamux.Session, l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		stream, err := session.OpenStream() // waits while the service accepts none
		if err != nil {
			conn.Close()
			return
		}
		go relay.Both(mux.NewConn(stream), conn)
	}
}
