package relay_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/sandbox-go/sandbox/internal/relay"
)

// pair returns the two ends of a TCP connection.
func pair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); accepted.Close() })
	return conn.(*net.TCPConn), accepted.(*net.TCPConn)
}

// relayed returns the two ends of a connection that was made of two.
func relayed(t *testing.T) (one, other *net.TCPConn, over chan struct{}) {
	one, a := pair(t)
	other, b := pair(t)
	over = make(chan struct{})
	go func() {
		defer close(over)
		relay.Both(a, b)
	}()
	return one, other, over
}

func TestBytesAreExact(t *testing.T) {
	one, other, over := relayed(t)
	go func() {
		io.Copy(other, other)
		other.CloseWrite()
	}()
	// Pieces of all sizes around those of the buffers.
	var want strings.Builder
	go func() {
		for _, n := range []int{1, 1023, 1024, 1025, 2048, 64 << 10, 64<<10 + 1, 1 << 20, 7} {
			io.WriteString(one, strings.Repeat(string(rune('a'+n%26)), n))
		}
		one.CloseWrite()
	}()
	for _, n := range []int{1, 1023, 1024, 1025, 2048, 64 << 10, 64<<10 + 1, 1 << 20, 7} {
		want.WriteString(strings.Repeat(string(rune('a'+n%26)), n))
	}
	got, err := io.ReadAll(one)
	if err != nil || string(got) != want.String() {
		t.Errorf("%d bytes of %d came back, %v", len(got), want.Len(), err)
	}
	<-over
}

func TestHalvesEndApart(t *testing.T) {
	one, other, over := relayed(t)
	io.WriteString(one, "question")
	one.CloseWrite()
	if got, err := io.ReadAll(other); string(got) != "question" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	io.WriteString(other, "answer")
	other.CloseWrite()
	if got, err := io.ReadAll(one); string(got) != "answer" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	<-over
}

// What was broken off is not taken for what has ended.
func TestBrokenOffIsReset(t *testing.T) {
	one, other, over := relayed(t)
	io.WriteString(one, "beginning")
	io.ReadFull(other, make([]byte, len("beginning")))
	one.SetLinger(0)
	one.Close()
	if _, err := io.ReadAll(other); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v", err)
	}
	<-over
}
