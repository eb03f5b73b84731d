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
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		refuse := func(context.Context, *egress.Request) (net.Conn, error) {
			return nil, &egress.Error{Refused: true, Text: "no"}
		}
		(&egress.Server{Open: refuse, MaxConns: 2}).Serve(ctx, lacking)
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(conn, "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(line, "403") {
		t.Errorf("answered %q, %v", line, err)
	}
	cancel()
	<-served
}

// A server cannot have the service keep a header without end.
func TestLargeResponseHeader(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		open := func(context.Context, *egress.Request) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				far.Read(make([]byte, 1<<10))
				fmt.Fprintf(far, "HTTP/1.1 200 OK\r\nX: %s\r\nContent-Length: 0\r\n\r\n", strings.Repeat("x", 1<<20))
			}()
			return near, nil
		}
		(&egress.Server{Open: open}).Serve(ctx, l)
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(conn, "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(line, "502") {
		t.Errorf("answered %q, %v", line, err)
	}
	cancel()
	<-served
}
