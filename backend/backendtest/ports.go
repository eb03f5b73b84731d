package backendtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// portCases are about connections to what commands listen on.
func portCases() []Case {
	const need = needPorts | needEcho
	return []Case{{
		Name:  "a-port-is-reached",
		Rule:  "A TCP port that a command listens on can be dialled, as often as one likes; the context covers the dialling only.",
		needs: need,
		run:   aPortIsReached,
	}, {
		Name:  "a-connection-carries-all",
		Rule:  "Bytes of a connection are exact, in both directions at once, however many; many connections do not mix.",
		needs: need,
		run:   aConnectionCarriesAll,
	}, {
		Name:  "a-connection-is-closed-by-halves",
		Rule:  "A connection has CloseWrite: the command sees the end, and what it sends after that still arrives, then its end.",
		needs: need,
		run:   aConnectionIsClosedByHalves,
	}, {
		Name:  "a-connection-has-deadlines",
		Rule:  "A deadline or a Close ends a Read that waits.",
		needs: need,
		run:   aConnectionHasDeadlines,
	}, {
		Name:  "nobody-listens",
		Rule:  "Where nobody listens, not yet or not any more, the error wraps ErrRefused; with a context that has ended it is the context's.",
		needs: need,
		run:   nobodyListens,
	}, {
		Name:  "a-connection-ends-with-what-it-leads-to",
		Rule:  "A connection ends with the command that it leads to, and with the sandbox.",
		needs: need,
		run:   aConnectionEndsWithWhatItLeadsTo,
	}, {
		Name:  "ports-are-apart",
		Rule:  "Only the sandbox's own ports are reachable: neither another sandbox's nor the service's.",
		needs: need | needDedicatedPorts,
		run:   portsAreApart,
	}, {
		Name:  "connections-leave-nothing",
		Rule:  "Connections leave neither goroutines nor descriptors, whoever ends them, and however much of them was not read.",
		needs: need,
		alone: true,
		run:   connectionsLeaveNothing,
	}}
}

func aPortIsReached(s *subject) {
	port, e := s.echo()
	for i := range 3 {
		ctx, cancel := context.WithCancel(s.ctx)
		conn := s.dial(ctx, port)
		cancel()
		for n := range 3 {
			s.exchange(conn, fmt.Sprintf("%d of %d\x00\r\n", n, i))
		}
		conn.Close()
	}
	s.ended(s.cancel(e), sandbox.Cancelled, none)
}

func aConnectionCarriesAll(s *subject) {
	port, _ := s.echo()
	var all errgroup.Group
	for i := range 8 {
		text := numbered(300_000 + i).all()
		conn := s.dial(s.ctx, port)
		all.Go(func() error {
			_, err := io.WriteString(conn, text)
			return errors.Join(err, closeWrite(conn))
		})
		all.Go(func() error {
			defer conn.Close()
			got, err := io.ReadAll(conn)
			s.same("what came back", string(got), text)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		s.Errorf("connection: %v", err)
	}
}

func aConnectionIsClosedByHalves(s *subject) {
	port, _ := s.echo()
	conn := s.dial(s.ctx, port)
	defer conn.Close()
	s.exchange(conn, "first")
	if err := closeWrite(conn); err != nil {
		s.Fatalf("close: %v", err)
	}
	if rest, err := io.ReadAll(conn); err != nil || len(rest) != 0 {
		s.Errorf("after the end there is %q, %v; want nothing", rest, err)
	}
	if _, err := conn.Write([]byte("x")); err == nil {
		s.Errorf("a write after the end succeeded")
	}
}

func aConnectionHasDeadlines(s *subject) {
	port, _ := s.echo()
	conn := s.dial(s.ctx, port)
	defer conn.Close()
	s.deadlines(conn, func() { s.exchange(conn, "goes on") })
}

// deadlines checks that a Read of conn, to which nothing comes, ends with its deadline and
// with Close, and that the connection goes on between the two.
func (s *subject) deadlines(conn net.Conn, goOn func()) {
	s.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(beatTime)); err != nil {
		s.Fatalf("deadline: %v", err)
	}
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
		s.Errorf("read after the deadline: %v", err)
	}
	conn.SetReadDeadline(time.Time{})
	goOn()
	closer := time.AfterFunc(beatTime, func() { conn.Close() })
	defer closer.Stop()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		s.Errorf("read of a connection that was closed: no error")
	}
}

func nobodyListens(s *subject) {
	s.refuses(s.Sandbox, s.port())
	port, e := s.echo()
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.Dial(ended, port); !errors.Is(err, context.Canceled) {
		s.Errorf("dial with a context that has ended: %v", err)
	}
	s.ended(s.cancel(e), sandbox.Cancelled, none)
	s.refuses(s.Sandbox, port)
}

func aConnectionEndsWithWhatItLeadsTo(s *subject) {
	sb := s.newSandbox()
	other := s.in(sb)
	port, e := other.echo()
	conn := other.dial(s.ctx, port)
	defer conn.Close()
	other.exchange(conn, "x")
	other.ended(other.cancel(e), sandbox.Cancelled, none)
	s.over(conn)
	port, _ = other.echo()
	conn = other.dial(s.ctx, port)
	defer conn.Close()
	other.exchange(conn, "x")
	s.closing("the sandbox", sb.Close)
	s.over(conn)
	if _, err := sb.Dial(s.ctx, port); !errors.Is(err, sandbox.ErrClosed) {
		s.Errorf("dial into a closed sandbox: %v", err)
	}
}

func portsAreApart(s *subject) {
	port, _ := s.echo()
	sb := s.newSandbox()
	defer s.closing("the other sandbox", sb.Close)
	s.refuses(sb, port)
	for _, place := range []struct{ network, addr string }{
		{"tcp", "127.0.0.1:0"}, {"tcp", ":0"}, {"tcp6", "[::]:0"}, {"tcp6", "[::1]:0"},
	} {
		service, err := net.Listen(place.network, place.addr)
		if err != nil && place.network == "tcp6" {
			continue // a machine without IPv6
		}
		if err != nil {
			s.Fatalf("listen: %v", err)
		}
		s.refuses(sb, service.Addr().(*net.TCPAddr).Port)
		service.Close()
	}
	conn := s.dial(s.ctx, port)
	s.exchange(conn, "its own")
	conn.Close()
}

func connectionsLeaveNothing(s *subject) {
	port, _ := s.echo()
	var use usage
	for i := range full(600, 60) {
		if i == 10 {
			use = measure()
		}
		conn := s.dial(s.ctx, port)
		switch i % 3 {
		case 0:
			s.exchange(conn, "x")
		case 1:
			conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			conn.Write(make([]byte, 100_000))
		}
		conn.Close()
		s.Dial(s.ctx, 1)
	}
	s.flat(use)
}

// port returns a port of this machine that nobody listens on.
func (s *subject) port() int {
	s.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatalf("listen: %v", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// echo starts a server that sends back what it is sent, and waits for it.
func (s *subject) echo() (port int, e sandbox.Exec) {
	s.Helper()
	port = s.port()
	e = s.start(s.h.Echo(port))
	s.eventually("the server listens", func() bool {
		conn, err := s.Dial(s.ctx, port)
		if err == nil {
			conn.Close()
		} else if rec := e.Execution(); !errors.Is(err, backend.ErrRefused) || rec.Status != sandbox.Running {
			s.Fatalf("dial: got %v, want %v until it listens; the server: %s", err, backend.ErrRefused, describe(rec))
		}
		return err == nil
	})
	return port, e
}

func (s *subject) dial(ctx context.Context, port int) net.Conn {
	s.Helper()
	conn, err := s.Dial(ctx, port)
	if err != nil {
		s.Fatalf("dial: %v", err)
	}
	return conn
}

// exchange sends a text and waits until it has come back.
func (s *subject) exchange(conn net.Conn, text string) {
	s.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		s.Fatalf("write: %v", err)
	}
	got := make([]byte, len(text))
	if n, err := io.ReadFull(conn, got); err != nil {
		s.Fatalf("read of what was sent: got %q, %v; want %q", got[:n], err, text)
	}
	s.same("what came back", string(got), text)
}

// over checks that a connection has ended, or soon does.
func (s *subject) over(conn net.Conn) {
	s.Helper()
	conn.SetReadDeadline(time.Now().Add(soon))
	var timeout net.Error
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		s.Errorf("a connection to what has ended gives %d bytes, %v; want none and its end", n, err)
	}
}

// refuses checks that nobody is reached in sb on that port.
func (s *subject) refuses(sb sandbox.Sandbox, port int) {
	s.Helper()
	conn, err := sb.Dial(s.ctx, port)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, backend.ErrRefused) {
		s.Errorf("dial of a port that nobody listens on: %v", err)
	}
}

// closeWrite ends one direction of a connection.
func closeWrite(conn net.Conn) error {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.New("the connection has no CloseWrite")
	}
	return half.CloseWrite()
}
