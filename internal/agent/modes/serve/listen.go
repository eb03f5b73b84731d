//go:build linux && (amd64 || arm64)

package serve

import (
	"io"
	"net"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-go/sandbox/internal/agent/shared/mux"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/relay"
)

// listen listens on a port of the loopback address for as long as stream lasts, and makes
// each connection a stream of its own, at whose bytes it does not look; or it hands over what
// listens.
func (c *container) listen(session *yamux.Session, stream *yamux.Stream, m *wire.Listen) {
	defer stream.Close()
	l, err := listenOn(m.Port)
	if err == nil {
		defer l.Close()
		if m.ID > 0 {
			err = withFD(l, func(fd int) error { return c.handing.send(&wire.Handed{Number: m.ID, Count: 1}, fd) })
		}
	}
	if err != nil {
		wire.Write(stream, &wire.Listening{Why: err.Error()})
		return
	}
	if wire.Write(stream, &wire.Listening{Port: l.Addr().(*net.TCPAddr).Port}) != nil || m.ID > 0 {
		return
	}
	go accept(session, l)
	io.Copy(io.Discard, stream)
}

// listenOn listens on a port of the loopback address.
func listenOn(port int) (*net.TCPListener, error) {
	return net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
}

func accept(session *yamux.Session, l net.Listener) {
	for {
		conn, err := relay.Accept(nil, l.Accept)
		if err != nil {
			return
		}
		stream, err := session.OpenStream() // waits while the service accepts none
		if err != nil {
			conn.Close()
			return
		}
		go relay.Both(mux.NewConn(stream), conn)
	}
}
