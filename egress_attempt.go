package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sandbox-go/sandbox/internal/egress"
	"github.com/sandbox-go/sandbox/internal/relay"
)

// An egressAttempt is an attempt that may last.
type egressAttempt struct {
	gate  *egressGate
	asked *egress.Request
	conn  *egressConn   // nil while there is none; guarded by gate.mu
	seen  EgressAttempt // guarded by gate.mu; without the bytes of conn
}

// begin records that a connection was asked for.
func (g *egressGate) begin(r *egress.Request) *egressAttempt {
	g.left.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count++
	a := &egressAttempt{gate: g, asked: r, seen: EgressAttempt{
		ID: fmt.Sprintf("egr_%06d", g.count), SandboxID: g.sb.id,
		Protocol: EgressProtocol(r.Protocol), Host: r.Host[:min(len(r.Host), maxEgressHost)], Port: int(r.Port),
		Verdict: EgressPending, StartedAt: time.Now(),
	}}
	g.attempts = append(g.attempts, a)
	return a
}

// list returns the attempts that are kept, oldest first.
func (g *egressGate) list() []EgressAttempt {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]EgressAttempt, len(g.attempts))
	for i, a := range g.attempts {
		all[i] = a.nowLocked()
	}
	return all
}

// nowLocked returns the attempt as it is.
func (a *egressAttempt) nowLocked() EgressAttempt {
	now := a.seen
	if a.conn != nil {
		now.Sent, now.Received = a.conn.sent.Load(), a.conn.received.Load()
	}
	return now
}

// note changes what is seen of the attempt.
func (a *egressAttempt) note(change func(*EgressAttempt)) {
	a.gate.mu.Lock()
	defer a.gate.mu.Unlock()
	change(&a.seen)
}

// failed notes why the attempt failed, and returns what the sandbox is told of it.
func (a *egressAttempt) failed(text string, err error) *egress.Error {
	a.note(func(seen *EgressAttempt) { seen.Err = err })
	return &egress.Error{Text: text}
}

// refusedAddress notes that the attempt leads to an address that is what, and returns what
// the sandbox is told of it. Which address a name has is not for the sandbox to know.
func (a *egressAttempt) refusedAddress(host egress.Host, to netip.AddrPort, what string) *egress.Error {
	text := fmt.Sprintf("%s leads to %s, which is refused unless a rule names that address and port", egress.RuleFor(host.String(), to.Port()), what)
	rule := ""
	if host.Name == "" {
		rule = to.String()
		text += fmt.Sprintf("; the rule to add is %q", rule)
	}
	a.note(func(seen *EgressAttempt) {
		seen.Rule, seen.Err = rule, fmt.Errorf("%s is %s; the rule to add is %q", to.Addr(), what, to)
	})
	return &egress.Error{Refused: true, Text: text}
}

// end records how the attempt has ended, and tells the observer.
func (a *egressAttempt) end(change func(*EgressAttempt)) {
	g := a.gate
	g.mu.Lock()
	change(&a.seen)
	a.seen.EndedAt = time.Now()
	a.seen = a.nowLocked()
	a.conn = nil
	seen := a.seen
	g.forgetLocked()
	g.mu.Unlock()
	g.sb.hooks.events().egress(EgressEvent{SandboxEvent: g.sb.event(), Attempt: seen})
	g.left.Done()
}

// forgetLocked keeps the last keptAttempts of those that are over.
func (g *egressGate) forgetLocked() {
	over := func(a *egressAttempt) bool { return !a.seen.EndedAt.IsZero() }
	n := 0
	for _, a := range g.attempts {
		if over(a) {
			n++
		}
	}
	if n > keptAttempts {
		i := slices.IndexFunc(g.attempts, over)
		g.attempts = slices.Delete(g.attempts, i, i+1)
	}
}

// An egressConn is the connection of an attempt, which ends with it.
type egressConn struct {
	net.Conn
	a              *egressAttempt
	timer          *time.Timer // of the longest time; nil where there is none; guarded by gate.mu
	once           sync.Once
	sent, received atomic.Int64
}

// carry makes conn the connection of an attempt, and counts what it carries.
func (g *egressGate) carry(a *egressAttempt, conn net.Conn, to netip.AddrPort) *egressConn {
	c := &egressConn{Conn: conn, a: a}
	a.note(func(seen *EgressAttempt) {
		seen.Verdict, seen.Addr, a.conn = EgressAllowed, to, c
		if g.cfg.MaxTime > 0 {
			c.timer = time.AfterFunc(g.cfg.MaxTime, func() {
				c.cut(fmt.Sprintf("it has lasted the %v that a connection may", g.cfg.MaxTime))
			})
		}
	})
	return c
}

func (c *egressConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.count(&c.received, n, err)
}

func (c *egressConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.count(&c.sent, n, err)
}

// count counts n bytes of one direction. It cuts the connection when no more may be
// carried.
func (c *egressConn) count(direction *atomic.Int64, n int, err error) error {
	direction.Add(int64(n))
	g := c.a.gate
	g.carried.Add(int64(n))
	if err == nil && g.full() {
		c.cut(g.fullText())
		return errors.New(g.fullText())
	}
	return err
}

// copyBelow is how many bytes of MaxBytes must be left for the kernel to pass bytes on. It
// counts them only afterwards, when up to relay.MaxSpliced may be under way. With less left,
// they are copied.
const copyBelow = 2 * relay.MaxSpliced

// Raw implements [relay.Socket].
func (c *egressConn) Raw() syscall.RawConn {
	g := c.a.gate
	if g.cfg.MaxBytes > 0 && g.cfg.MaxBytes-g.carried.Load() < copyBelow {
		return nil
	}
	return relay.RawOf(c.Conn)
}

// Carried implements [relay.Socket].
func (c *egressConn) Carried(read, written int) error {
	if err := c.count(&c.received, read, nil); err != nil {
		return err
	}
	return c.count(&c.sent, written, nil)
}

// CloseWrite ends what is sent, where the connection can.
func (c *egressConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// SetLinger is that of a *net.TCPConn, where the connection is one.
func (c *egressConn) SetLinger(sec int) error {
	if tcp, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		return tcp.SetLinger(sec)
	}
	return nil
}

func (c *egressConn) Close() error { return c.cut("") }

// cut closes the connection, for a reason that is not empty where nobody else has.
func (c *egressConn) cut(reason string) error {
	err := net.ErrClosed
	c.once.Do(func() {
		err = c.Conn.Close()
		c.a.end(func(seen *EgressAttempt) {
			seen.Reason = reason
			if c.timer != nil {
				c.timer.Stop()
			}
		})
	})
	return err
}

// egress tells that an attempt is over. What a sandbox can bring about as often as it likes
// leaves room for other events.
func (e *events) egress(event EgressEvent) {
	if e.to != nil {
		e.addUpTo(maxEvents/2, func() { e.to.EgressEnded(context.Background(), event) }, 0)
	}
}
