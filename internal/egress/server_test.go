package egress_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox/internal/egress"
)

// A lacking is a listener that has no descriptor for its first connections.
type lacking struct {
	net.Listener
	times atomic.Int32
}

func (l *lacking) Accept() (net.Conn, error) {
	if l.times.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// A service that has no descriptor for a connection serves again when it has, in as many at
// once as before.
func TestServesAfterAFailedAccept(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lacking := &lacking{Listener: l}
	lacking.times.Store(3)
	refuse := func(context.Context, *egress.Request) (net.Conn, error) {
		return nil, &egress.Error{Refused: true, Text: "no"}
	}
	line, err := answer(t, &egress.Server{Open: refuse, MaxConns: 2}, lacking, "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n")
	if !strings.Contains(line, "403") {
		t.Errorf("answered %q, %v", line, err)
	}
}

// answer has s serve l, and returns the first line that it answers to a request.
func answer(t *testing.T, s *egress.Server, l net.Listener, request string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.Serve(ctx, l)
	}()
	defer func() {
		cancel()
		<-served
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(conn, request)
	return bufio.NewReader(conn).ReadString('\n')
}

// A server cannot have the service keep a header without end.
func TestLargeResponseHeader(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	open := func(context.Context, *egress.Request) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			far.Read(make([]byte, 1<<10))
			fmt.Fprintf(far, "HTTP/1.1 200 OK\r\nX: %s\r\nContent-Length: 0\r\n\r\n", strings.Repeat("x", 1<<20))
		}()
		return near, nil
	}
	line, err := answer(t, &egress.Server{Open: open}, l, "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
	if !strings.Contains(line, "502") {
		t.Errorf("answered %q, %v", line, err)
	}
}
