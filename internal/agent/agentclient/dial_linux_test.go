//go:build linux && (amd64 || arm64)

package agentclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// A port that is reached through an agent that is spoken with directly is a socket of the
// service's, which lasts no longer than the connection to the agent.
func TestPortIsHandedOver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may look into the agent")
	}
	a := launch{direct: true}.start(t)
	if err := a.Direct(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	var inside []net.Conn
	dial := func() net.Conn {
		conn, err := a.Dial(t.Context(), port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		there, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { there.Close() })
		inside = append(inside, there)
		return conn
	}
	conn, closed := dial(), dial()
	if got, want := conn.LocalAddr().String(), inside[0].RemoteAddr().String(); got != want {
		t.Errorf("the connection is from %s, and comes from %s: another process carries it", got, want)
	}
	closed.Close()
	if n, err := inside[1].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("one that is closed gives %d bytes, %v", n, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Dial(ended, port); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	l.Close()
	if _, err := a.Dial(t.Context(), port); !errors.Is(err, backend.ErrRefused) {
		t.Errorf("where nobody listens: %v", err)
	}
	a.Close()
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end of the agent: %d bytes, %v", n, err)
	}
	if n, err := inside[0].Read(make([]byte, 1)); err == nil {
		t.Errorf("after the end of the agent its end gives %d bytes", n)
	}
}
