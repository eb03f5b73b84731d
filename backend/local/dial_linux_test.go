package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/local"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// listen listens as the service, and returns whether anybody has come.
func listen(t *testing.T, network, addr string) (port int, came <-chan struct{}) {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Skipf("this machine has no %s: %v", network, err)
	}
	t.Cleanup(func() { l.Close() })
	accepted := make(chan struct{}, 1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
			select {
			case accepted <- struct{}{}:
			default:
			}
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, accepted
}

func dial(t *testing.T, i backend.Instance, port int) (net.Conn, error) {
	t.Helper()
	return i.(backend.Dialer).Dial(t.Context(), port)
}

// TestPortsOfTheService checks that what the service itself listens on is not
// reached, whoever it shares its user with.
func TestPortsOfTheService(t *testing.T) {
	i := newInstance(t, newBackend(t, nil), "sbx_1")
	for _, place := range [][2]string{{"tcp4", "127.0.0.1:0"}, {"tcp4", "0.0.0.0:0"}, {"tcp", "[::]:0"}, {"tcp6", "[::]:0"}, {"tcp6", "[::1]:0"}} {
		t.Run(place[0]+"-"+place[1], func(t *testing.T) {
			port, came := listen(t, place[0], place[1])
			if conn, err := dial(t, i, port); !errors.Is(err, backend.ErrRefused) {
				t.Errorf("got %v, %v", conn, err)
			}
			select {
			case <-came:
				t.Error("a connection has come")
			case <-time.After(20 * time.Millisecond):
			}
		})
	}
}

func TestPortsOfTheServiceOrdinaryUser(t *testing.T) {
	asOrdinaryUser(t, "^(TestPortsOfTheService|TestPortOfEachFamily)$")
}

// TestPortOfEachFamily checks that a port that somebody else has in the other family of
// addresses is not taken for the sandbox's.
func TestPortOfEachFamily(t *testing.T) {
	self := programtest.PublicSelf(t)
	i := newInstance(t, newBackend(t, nil), "sbx_1")
	for _, place := range []struct{ name, service, serviceAddr, own, ownAddr string }{
		{"service-on-4", "tcp4", "127.0.0.1:0", "tcp6", "[::]"},
		{"service-on-all-4", "tcp4", "0.0.0.0:0", "tcp6", "[::]"},
		{"service-on-6", "tcp6", "[::]:0", "tcp4", "0.0.0.0"},
	} {
		t.Run(place.name, func(t *testing.T) {
			port, came := listen(t, place.service, place.serviceAddr)
			p := start(t, i, backend.Spec{Argv: []string{self}, Env: []string{
				programtest.AsEcho + "=" + fmt.Sprintf("%s %s:%d", place.own, place.ownAddr, port),
			}})
			defer p.Kill()
			var conn net.Conn
			eventually(t, "the sandbox's port is reached", func() (ok bool) {
				var err error
				conn, err = dial(t, i, port)
				if err != nil && !errors.Is(err, backend.ErrRefused) {
					t.Fatal(err)
				}
				return err == nil
			})
			defer conn.Close()
			got := make([]byte, 4)
			io.WriteString(conn, "mine")
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != "mine" {
				t.Errorf("got %q, %v", got, err)
			}
			select {
			case <-came:
				t.Error("a connection has come to the service")
			default:
			}
		})
	}
}

// TestConnectionTellsItsOwner checks the connection itself: whoever listened before.
func TestConnectionTellsItsOwner(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	uid := uint32(os.Geteuid())
	check := func(state string, uid uint32, own, want bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if got, err := local.Reaches(ctx, uid, own, conn); got != want || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s, user %d, its own %v: %v, %v; want %v", state, uid, own, got, err, want)
		}
	}
	for _, state := range []string{"before it is accepted", "after"} {
		check(state, uid, true, true)
		check(state, uid+1, true, false)
		check(state, uid, false, false)
		if state == "before it is accepted" {
			accepted, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer accepted.Close()
		}
	}
}

// TestSocketsEitherWay checks that asking the kernel and reading its tables tell the
// same.
func TestSocketsEitherWay(t *testing.T) {
	for _, place := range [][2]string{{"tcp4", "127.0.0.1:0"}, {"tcp", "[::]:0"}, {"tcp6", "[::1]:0"}} {
		t.Run(place[0]+"-"+place[1], func(t *testing.T) {
			l, err := net.Listen(place[0], place[1])
			if err != nil {
				t.Skipf("this machine has no %s: %v", place[0], err)
			}
			defer l.Close()
			at := l.Addr().(*net.TCPAddr)
			for _, ip := range []string{"127.0.0.1", "::1"} {
				conn, err := net.Dial("tcp", net.JoinHostPort(ip, fmt.Sprint(at.Port)))
				if err != nil {
					continue // of the other family
				}
				there, here := conn.RemoteAddr().(*net.TCPAddr).AddrPort(), conn.LocalAddr().(*net.TCPAddr).AddrPort()
				for n := range 2 { // before it is accepted, and after
					asked, read, err := local.DiagAndTables(uint16(at.Port), there, here)
					if err != nil {
						t.Fatal(err)
					}
					if asked != read {
						t.Errorf("over %s: asked %s, read %s", ip, asked, read)
					}
					if n > 0 {
						break
					}
					accepted, err := l.Accept()
					if err != nil {
						t.Fatal(err)
					}
					defer accepted.Close()
				}
				conn.Close()
			}
		})
	}
}
