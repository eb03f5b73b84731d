package kubernetes_test

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/kubernetes"
)

// A balancer stands before the API server as a load balancer does. A connection that it
// has dropped stays open at both ends, and brings nothing any more.
type balancer struct {
	idle time.Duration // after which it drops a connection that brings nothing; 0 is never

	stalled sync.RWMutex // held while nothing is forwarded

	mu   sync.Mutex // guards what follows
	ends []net.Conn
	all  []*forwarded
}

// A forwarded is a connection through a balancer.
type forwarded struct{ dropped atomic.Bool }

// newBalancer starts a balancer of the cluster, and returns the way through it.
func newBalancer(tb testing.TB, c cluster, idle time.Duration) (*balancer, *rest.Config) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	b := &balancer{idle: idle}
	tb.Cleanup(func() {
		l.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, end := range b.ends {
			end.Close()
		}
	})
	server := strings.TrimPrefix(c.config.Host, "https://")
	if !strings.Contains(server, ":") {
		server += ":443"
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go b.forward(client, server)
		}
	}()
	config := rest.CopyConfig(c.config)
	config.Host = "https://" + l.Addr().String()
	return b, config
}

func (b *balancer) forward(client net.Conn, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		client.Close()
		return
	}
	f := new(forwarded)
	b.mu.Lock()
	b.ends, b.all = append(b.ends, client, server), append(b.all, f)
	b.mu.Unlock()
	active := func() {}
	if b.idle > 0 {
		timer := time.AfterFunc(b.idle, func() { f.dropped.Store(true) })
		active = func() { timer.Reset(b.idle) }
	}
	pass := func(to, from net.Conn) {
		for buffer := make([]byte, 32<<10); ; {
			n, err := from.Read(buffer)
			b.stalled.RLock() // waits while it stands still
			dropped := f.dropped.Load()
			b.stalled.RUnlock()
			switch {
			case dropped && err == nil:
			case err != nil:
				if !dropped {
					to.Close()
				}
				return
			default:
				active()
				to.Write(buffer[:n])
			}
		}
	}
	go pass(client, server)
	pass(server, client)
}

// drop drops the connections there are.
func (b *balancer) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.all {
		f.dropped.Store(true)
	}
}

// newBalanced makes a sandbox by way of a balancer that drops connections that are idle so long,
// with a ping each second that is to be answered within that time.
func newBalanced(t *testing.T, idle, within time.Duration) (*balancer, sandbox.Sandbox) {
	t.Helper()
	way, config := newBalancer(t, testCluster(t), idle)
	b := newBackend(t, kubernetes.Options{Config: config})
	b.SetPings(time.Second, within)
	return way, newSandbox(t, b, nil)
}

// A load balancer that drops idle connections soon is told by pings that a sandbox's is not.
func TestIdleIsDropped(t *testing.T) {
	t.Parallel()
	_, sb := newBalanced(t, 4*time.Second, 10*time.Second)
	rec, err := follow(t, sb, "sleep 9; echo over; exit 3").Wait(testContext(t))
	if err != nil || rec.Stdout.String() != "begun\nover\n" || rec.ExitCode == nil || *rec.ExitCode != 3 {
		t.Errorf("%v, %s", err, describe(rec))
	}
	output(t, sb, "true")
}

// Through one that stands still for a while a command goes on, and its true end is told.
func TestConnectionStalls(t *testing.T) {
	t.Parallel()
	way, sb := newBalanced(t, 0, 20*time.Second)
	e := follow(t, sb, "sleep 1; echo over; exit 3")
	way.stalled.Lock()
	time.Sleep(5 * time.Second)
	way.stalled.Unlock()
	if rec, err := e.Wait(testContext(t)); err != nil || rec.Stdout.String() != "begun\nover\n" || rec.ExitCode == nil || *rec.ExitCode != 3 {
		t.Errorf("%v, %s", err, describe(rec))
	}
}

// What runs when the connections are dropped has failed with no exit code, as soon as a ping
// is not answered. It is killed, and the sandbox goes on over others.
func TestConnectionIsDropped(t *testing.T) {
	t.Parallel()
	way, sb := newBalanced(t, 0, 3*time.Second)
	output(t, sb, "echo kept >file")
	e := follow(t, sb, "while printf x >>beat; do sleep 0.05; done")
	way.drop()
	begin := time.Now()
	lost(t, e)
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
	eventually(t, "a command runs again", func() bool {
		rec, err := sb.Run(testContext(t), sandbox.Command{Shell: "cat file"})
		return err == nil && rec.Stdout.String() == "kept\n"
	})
	if took := time.Since(begin); took > 25*time.Second { // the client library would take 45 s
		t.Errorf("a command runs again after %v", took)
	}
	size := output(t, sb, "wc -c <beat")
	if later := output(t, sb, "sleep 1; wc -c <beat"); later != size {
		t.Errorf("what was lost goes on: %q, then %q", size, later)
	}
}
