package backendtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// egressCases are about the one way out of a sandbox. The driver's part is a listener; what
// comes from it is package sandbox's.
func egressCases() []Case {
	return []Case{{
		Name: "egress-is-held-or-refused",
		Rule: "A backend whose Info.Egress is false refuses a Config.Egress with an error that wraps errors.ErrUnsupported; one whose Info.Egress is true creates with it.",
		run:  egressIsHeldOrRefused,
	}, {
		Name:  "a-listener-is-reached",
		Rule:  "Processes of the sandbox connect to the listener's address; bytes are exact, in both directions, however many; many connections do not mix.",
		needs: needEgress,
		run:   aListenerIsReached,
	}, {
		Name:  "a-listeners-connection-is-closed-by-halves",
		Rule:  "The end of what a process sends is seen, and it can still be answered; by CloseWrite it sees the end of that.",
		needs: needEgress,
		run:   aListenersConnectionIsClosedByHalves,
	}, {
		Name:  "a-listeners-connection-has-deadlines",
		Rule:  "A deadline or a Close ends a Read of a listener's connection that waits, and after a deadline it can be read again.",
		needs: needEgress,
		run:   aListenersConnectionHasDeadlines,
	}, {
		Name:  "a-listener-ends",
		Rule:  "A connection of a listener ends with the process that has made it and with the sandbox; Accept then returns an error that wraps net.ErrClosed, and so it does after Close.",
		needs: needEgress,
		run:   aListenerEnds,
	}, {
		Name:  "egress-has-one-way-out",
		Rule:  "With Config.Egress a process reaches neither another sandbox's listener nor anything of this machine.",
		needs: needEgress,
		run:   egressHasOneWayOut,
	}, {
		Name:  "egress-is-decided",
		Rule:  "A command finds the proxy in its environment, and it leads to what a rule allows, and to nothing else, with the reason.",
		needs: needEgress,
		run:   egressIsDecided,
	}, {
		Name:  "egress-leaves-nothing",
		Rule:  "Connections out of a sandbox leave neither goroutines nor descriptors, whoever ends them.",
		needs: needEgress,
		alone: true,
		run:   egressLeavesNothing,
	}}
}

func egressIsHeldOrRefused(s *subject) {
	cfg := s.withEgress()
	cfg.ID = uniqueID()
	i, err := s.backend.Create(s.ctx, cfg)
	if err == nil {
		defer s.closing("the instance", i.Destroy)
	}
	if promised := s.backend.Info().Egress; promised && err != nil || !promised && !errors.Is(err, errors.ErrUnsupported) {
		s.Errorf("egress is promised: %t; create: %v", promised, err)
	}
}

func aListenerIsReached(s *subject) {
	l := s.listen()
	go echoAll(l)
	var all errgroup.Group
	for i := range 4 {
		text := numbered(30_000 + i).all()
		all.Go(func() error {
			s.same("what came back", l.ask(text), text)
			return nil
		})
	}
	all.Wait()
}

func aListenersConnectionIsClosedByHalves(s *subject) {
	l := s.listen()
	p, out := l.connect(strings.NewReader("first"))
	conn := l.accept()
	defer conn.Close()
	if got, err := io.ReadAll(conn); string(got) != "first" || err != nil {
		s.Errorf("what was sent is %q, %v", got, err)
	}
	io.WriteString(conn, "after")
	if err := closeWrite(conn); err != nil {
		s.Fatalf("close: %v", err)
	}
	s.same("what was answered", l.finish(p, out), "after")
}

func aListenersConnectionHasDeadlines(s *subject) {
	l := s.listen()
	in, send := io.Pipe()
	defer send.Close()
	l.connect(in)
	conn := l.accept()
	defer conn.Close()
	s.deadlines(conn, func() {
		io.WriteString(send, "x")
		if n, err := conn.Read(make([]byte, 9)); n != 1 || err != nil {
			s.Errorf("read after the deadline was lifted: %d bytes, %v", n, err)
		}
	})
}

func aListenerEnds(s *subject) {
	l := s.listen()
	in, send := io.Pipe()
	defer send.Close()
	p, _ := l.connect(in)
	conn := l.accept()
	if err := p.Kill(); err != nil {
		s.Errorf("kill: %v", err)
	}
	s.over(conn)
	conn.Close()
	in, send = io.Pipe()
	defer send.Close()
	l.connect(in)
	conn = l.accept()
	defer conn.Close()
	s.closing("the instance", l.instance.Destroy)
	s.over(conn)
	s.accepts(l)
	other := s.listen()
	other.Listener.Close()
	s.accepts(other)
}

func egressHasOneWayOut(s *subject) {
	l, other := s.listen(), s.listen()
	go echoAll(l)
	go func() {
		if conn, err := other.Accept(); err == nil {
			s.Errorf("a process has reached another sandbox's listener")
			conn.Close()
		}
	}()
	l.from("127.0.0.1", other.port())
	for _, host := range machineAddrs(s) {
		service, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			s.Logf("%s is not tried: %v", host, err)
			continue
		}
		go echoAll(service)
		s.same("what comes from this machine's "+host, l.from(host, service.Addr().(*net.TCPAddr).Port), "")
		service.Close()
	}
	s.same("what comes from the sandbox's own listener", l.ask("x"), "x")
}

func egressIsDecided(s *subject) {
	allowed := s.ask("CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\nhello")
	if !strings.HasSuffix(allowed, "\r\n\r\nhello") || !strings.HasPrefix(allowed, "HTTP/1.1 200 ") {
		s.Errorf("of what is allowed: %q", allowed)
	}
	refused := s.ask("CONNECT refused.test:443 HTTP/1.1\r\nHost: refused.test:443\r\n\r\n")
	if !strings.HasPrefix(refused, "HTTP/1.1 403 ") || !strings.Contains(refused, `"refused.test:443"`) {
		s.Errorf("of what is not: %q", refused)
	}
	var verdicts []sandbox.EgressVerdict
	for _, a := range s.Egress() {
		verdicts = append(verdicts, a.Verdict)
	}
	s.same("the verdicts", fmt.Sprint(verdicts), "[allowed refused]")
}

func egressLeavesNothing(s *subject) {
	var use usage
	for i := range full(300, 30) {
		if i == 10 {
			use = measure()
		}
		host := []string{"allowed.test", "refused.test"}[i%2]
		s.ask("CONNECT " + host + ":443 HTTP/1.1\r\nHost: x\r\n\r\nhello")
	}
	s.flat(use)
}

// withEgress returns the harness's configuration with a rule.
func (s *subject) withEgress() *backend.Config {
	var cfg backend.Config
	if s.h.Config != nil {
		cfg = *s.h.Config
	}
	cfg.Egress = &backend.Egress{Allow: []string{"allowed.test"}}
	return &cfg
}

// egressOptions have allowed.test lead to a server that sends five bytes back. They are of
// all sandboxes of the suite, where only those with a Config.Egress use them.
func egressOptions() sandbox.EgressOptions {
	return sandbox.EgressOptions{
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		},
		Dial: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				io.CopyN(far, far, 5)
			}()
			return near, nil
		},
	}
}

// ask sends text to the proxy that a command of the case's sandbox is told of, and returns
// the answer.
func (s *subject) ask(text string) string {
	s.Helper()
	rec := s.run(printVar("HTTP_PROXY"))
	proxy, err := url.Parse(strings.TrimSpace(rec.Stdout.String()))
	if err != nil {
		s.Fatalf("the proxy: %v: %s", err, describe(rec))
	}
	port, err := strconv.Atoi(proxy.Port())
	if err != nil || proxy.Scheme != "http" || proxy.Hostname() != "127.0.0.1" {
		s.Fatalf("the proxy is %q", proxy)
	}
	cmd := s.h.Connect("127.0.0.1", port)
	cmd.Stdin = strings.NewReader(text)
	return s.runCommand(cmd).Stdout.String()
}

// A listening is an instance that was made without package sandbox, and its listener.
type listening struct {
	net.Listener
	s        *subject
	instance backend.Instance
}

// uniqueID returns an id that no case which runs at the same time has.
func uniqueID() string { return "sbx_" + strings.ToLower(rand.Text()) }

// listen makes an instance that listens. It ends with the backend.
func (s *subject) listen() *listening {
	s.Helper()
	cfg := s.withEgress()
	cfg.ID = uniqueID()
	i, err := s.backend.Create(s.ctx, cfg)
	if err != nil {
		s.Fatalf("create: %v", err)
	}
	l, err := i.(backend.Listener).Listen(s.ctx)
	if err != nil {
		s.Fatalf("listen: %v", err)
	}
	if addr, ok := l.Addr().(*net.TCPAddr); !ok || addr.String() != net.JoinHostPort("127.0.0.1", strconv.Itoa(addr.Port)) {
		s.Fatalf("the listener's address is %v", l.Addr())
	}
	return &listening{l, s, i}
}

func (l *listening) port() int { return l.Addr().(*net.TCPAddr).Port }

// start has a process connect.
func (l *listening) start(host string, port int, in io.Reader) (backend.Process, *collected) {
	l.s.Helper()
	cmd := l.s.h.Connect(host, port)
	var env []string
	for key, value := range cmd.Env {
		env = append(env, key+"="+value)
	}
	out := &collected{}
	p, err := l.instance.Start(l.s.ctx, &backend.Spec{Shell: cmd.Shell, Argv: cmd.Argv, Env: env, Stdin: in, Stdout: out, Stderr: io.Discard})
	if err != nil {
		l.s.Fatalf("start: %v", err)
	}
	return p, out
}

// connect has a process connect to the listener.
func (l *listening) connect(in io.Reader) (backend.Process, *collected) {
	l.s.Helper()
	return l.start("127.0.0.1", l.port(), in)
}

func (l *listening) accept() net.Conn {
	l.s.Helper()
	conn, err := l.Accept()
	if err != nil {
		l.s.Fatalf("accept: %v", err)
	}
	return conn
}

// from returns what a process gets that connects and sends one byte.
func (l *listening) from(host string, port int) string {
	l.s.Helper()
	return l.finish(l.start(host, port, strings.NewReader("x")))
}

// ask returns what a process gets that connects to the listener and sends text.
func (l *listening) ask(text string) string {
	l.s.Helper()
	return l.finish(l.connect(strings.NewReader(text)))
}

// finish waits for the end of a process, which is to come by itself.
func (l *listening) finish(p backend.Process, out *collected) string {
	l.s.Helper()
	timer := time.AfterFunc(soon, func() {
		l.s.Errorf("a process whose connection is to have ended has not")
		p.Kill()
	})
	defer timer.Stop()
	<-p.OutputOver()
	return out.String()
}

// accepts checks that a listener has ended.
func (s *subject) accepts(l *listening) {
	s.Helper()
	if conn, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		s.Errorf("accept of a listener that has ended: %v, %v", conn, err)
	}
}

// collected is a sink that can be looked at meanwhile.
type collected struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (c *collected) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.Write(p)
}

func (c *collected) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.String()
}

// echoAll sends back what each connection brings, until the listener ends.
func echoAll(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			io.Copy(conn, conn)
			closeWrite(conn)
		}()
	}
}

// machineAddrs returns some addresses that this machine has.
func machineAddrs(s *subject) []string {
	hosts := []string{"127.0.0.1"}
	all, err := net.InterfaceAddrs()
	if err != nil {
		s.Fatalf("the machine's addresses: %v", err)
	}
	for _, a := range all {
		if a, ok := a.(*net.IPNet); ok && a.IP.To4() != nil && !a.IP.IsLoopback() && len(hosts) < 4 {
			hosts = append(hosts, a.IP.String())
		}
	}
	return hosts
}
