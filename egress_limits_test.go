package sandbox_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
)

// endlessly returns a connection through a sandbox's way out to what sends without end.
func endlessly(t *testing.T, cfg sandbox.Egress) (sandbox.Sandbox, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for piece := make([]byte, 1<<20); err == nil; {
			_, err = conn.Write(piece)
		}
	}()
	cfg.Allow = []string{l.Addr().String()}
	sb, env := newOnHost(t, &cfg, sandbox.EgressOptions{})
	for _, kv := range env {
		if proxy, ok := strings.CutPrefix(kv, "HTTP_PROXY=http://"); ok {
			conn, err := net.Dial("tcp", proxy)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			fmt.Fprint(conn, connectTo(l.Addr().String(), ""))
			return sb, conn
		}
	}
	t.Fatal("no proxy")
	return nil, nil
}

// Bytes that the kernel passes on are bounded as others are.
func TestEgressBytesOfSockets(t *testing.T) {
	const most = 40 << 20
	sb, conn := endlessly(t, sandbox.Egress{MaxBytes: most})
	got, _ := io.Copy(struct{ io.Writer }{io.Discard}, conn)
	if got < most/2 || got > most+(1<<20) {
		t.Errorf("%d bytes came of %d", got, most)
	}
	if a := sb.Egress()[0]; a.Received < got-int64(len(established)) || a.Received > most+(1<<20) || !strings.Contains(a.Reason, "bytes") {
		t.Errorf("%d bytes came, %+v", got, a)
	}
}

// A connection lasts as long as it may, also when its bytes are not taken; and what it has
// carried is seen before its end.
func TestEgressTimeOfSockets(t *testing.T) {
	sb, conn := endlessly(t, sandbox.Egress{MaxTime: 300 * time.Millisecond})
	if _, err := io.ReadFull(conn, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if a := sb.Egress()[0]; !a.EndedAt.IsZero() || a.Received < 1<<19 {
		t.Errorf("while it lasts: %+v", a)
	}
	for deadline := time.Now().Add(10 * time.Second); sb.Egress()[0].EndedAt.IsZero(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it goes on")
		}
	}
}
