package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/egress"
)

const (
	defaultEgressConns = 256

	// egressTime bounds looking a host up and connecting to it.
	egressTime = 30 * time.Second

	// keptAttempts is how many attempts that are over a sandbox keeps.
	keptAttempts = 256

	// maxEgressHost is how much is kept of a host that is none.
	maxEgressHost = 64
)

// An egressGate is the one way out of a sandbox: it decides on each connection, and makes it.
type egressGate struct {
	sb    *sandboxImpl
	cfg   Egress
	opts  EgressOptions
	rules []egress.Rule
	proxy string // its URL, as commands have it

	stop context.CancelFunc
	over chan struct{}  // closed when nobody is served any more
	left sync.WaitGroup // attempts that last

	carried atomic.Int64 // bytes of all connections

	mu       sync.Mutex // guards all below
	count    int        // attempts there have been
	attempts []*egressAttempt
}

// openEgress opens the sandbox's way out, if it is to have one.
func (sb *sandboxImpl) openEgress(ctx context.Context) error {
	cfg := sb.cfg.Egress
	if cfg == nil {
		return nil
	}
	l, ok := sb.instance.(backend.Listener)
	if !sb.backend.Egress {
		return fmt.Errorf("egress: %w: the backend %q does not hold a sandbox to rules: leave Config.Egress nil, or use one whose Info.Egress is true",
			errors.ErrUnsupported, sb.backend.Name)
	}
	if !ok { // only who uses it needs it
		return errHidden("Egress", sb.instance, "backend.Listener")
	}
	rules, err := egressRules(cfg)
	if err != nil {
		return err
	}
	listener, err := answerOf(ctx, "Listen", answerTime, func() (net.Listener, error) { return l.Listen(ctx) }, net.Listener.Close)
	if err != nil {
		return fmt.Errorf("egress: %w", err)
	}
	life, stop := context.WithCancel(sb.life)
	g := &egressGate{
		sb: sb, cfg: *cfg, opts: sb.opts.Egress, rules: rules,
		proxy: "http://" + listener.Addr().String(),
		stop:  stop, over: make(chan struct{}),
	}
	server := &egress.Server{Open: g.open, MaxConns: orDefault(cfg.MaxConns, defaultEgressConns)}
	if g.opts.Header != nil {
		server.Header = g.header
	}
	go func() {
		defer close(g.over)
		server.Serve(life, listener)
		g.left.Wait()
	}()
	sb.egress = g
	return nil
}

// Egress returns the attempts that are kept.
func (sb *sandboxImpl) Egress() []EgressAttempt {
	if sb.egress == nil {
		return nil
	}
	return sb.egress.list()
}

// close ends all connections, and waits until they have.
func (g *egressGate) close(ctx context.Context) {
	g.stop()
	select {
	case <-g.over:
	case <-ctx.Done():
	}
}

// egressRules parses the rules of a configuration.
func egressRules(cfg *Egress) ([]egress.Rule, error) {
	if cfg == nil {
		return nil, nil
	}
	var rules []egress.Rule
	for _, text := range cfg.Allow {
		rule, err := egress.ParseRule(text)
		if err != nil {
			return nil, invalidf(FieldConfigEgress, "the rule %.100q: %v", text, err)
		}
		rules = append(rules, rule)
	}
	if cfg.MaxBytes < 0 || cfg.MaxTime < 0 {
		return nil, invalidf(FieldConfigEgress, "MaxBytes or MaxTime is negative: leave it 0 for no bound")
	}
	return rules, nil
}

// open decides on a request and makes its connection.
func (g *egressGate) open(ctx context.Context, r *egress.Request) (net.Conn, error) {
	a := g.begin(r)
	ctx, cancel := context.WithTimeout(ctx, egressTime)
	defer cancel()
	conn, err := g.connect(ctx, a)
	if err != nil {
		a.end(func(seen *EgressAttempt) {
			seen.Verdict, seen.Reason = EgressFailed, err.Error()
			if err.Refused {
				seen.Verdict = EgressRefused
			}
		})
		return nil, err
	}
	return conn, nil
}

// connect makes the connection of an attempt.
func (g *egressGate) connect(ctx context.Context, a *egressAttempt) (net.Conn, *egress.Error) {
	if g.full() {
		return nil, &egress.Error{Refused: true, Text: g.fullText()}
	}
	host, err := egress.ParseHost(a.asked.Host)
	if err != nil {
		return nil, &egress.Error{Refused: true, Text: fmt.Sprintf("%.*q is no host: %v", maxEgressHost, a.asked.Host, err)}
	}
	port := a.asked.Port
	a.note(func(seen *EgressAttempt) { seen.Host = host.String() })
	i := slices.IndexFunc(g.rules, func(r egress.Rule) bool { return r.Allows(host, port) })
	if i < 0 {
		rule := egress.RuleFor(host.String(), port)
		a.note(func(seen *EgressAttempt) { seen.Rule = rule })
		return nil, &egress.Error{Refused: true, Text: fmt.Sprintf("%s is not allowed from this sandbox; the rule to add is %q", rule, rule)}
	}
	a.note(func(seen *EgressAttempt) { seen.Rule = g.rules[i].String() })
	addrs := []netip.Addr{host.Addr}
	if host.Name != "" {
		if addrs, err = g.resolve(ctx, host.Name); err != nil || len(addrs) == 0 {
			return nil, a.failed("the name "+host.Name+" has no address", err)
		}
	}
	open, refused := g.judge(addrs, port)
	if len(open) == 0 {
		return nil, a.refusedAddress(host, netip.AddrPortFrom(refused.addr, port), refused.what)
	}
	conn, to, err := g.dial(ctx, open, port)
	if err != nil {
		return nil, a.failed(egress.RuleFor(host.String(), port)+" cannot be reached: "+dialProblem(err), err)
	}
	return g.carry(a, conn, to), nil
}

// A refusedAddr is an address that nothing may connect to, and what it is.
type refusedAddr struct {
	addr netip.Addr
	what string // with an article
}

// judge returns those addresses that a connection may lead to, and one to which it may
// not.
func (g *egressGate) judge(addrs []netip.Addr, port uint16) (open []netip.Addr, refused refusedAddr) {
	for _, addr := range addrs {
		addr = addr.Unmap()
		named := slices.ContainsFunc(g.rules, func(r egress.Rule) bool { return r.Names(netip.AddrPortFrom(addr, port)) })
		if kind := egress.Kind(addr); named || kind == "" && !egress.Own(addr) {
			open = append(open, addr)
		} else {
			refused = refusedAddr{addr, "an address of this machine"}
			if kind != "" {
				refused.what = "a " + kind + " address"
			}
		}
	}
	return open, refused
}

// resolve looks a name up. The dot at its end keeps search domains away.
func (g *egressGate) resolve(ctx context.Context, name string) (addrs []netip.Addr, err error) {
	if g.opts.Resolve == nil {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".")
	}
	if caught := protect(func() { addrs, err = g.opts.Resolve(ctx, name) }); caught != nil {
		return nil, g.panicked("Resolve", caught)
	}
	return addrs, err
}

// dial connects to the first of some addresses that answers.
func (g *egressGate) dial(ctx context.Context, addrs []netip.Addr, port uint16) (conn net.Conn, to netip.AddrPort, err error) {
	dial := g.opts.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	for i, addr := range addrs {
		to = netip.AddrPortFrom(addr, port)
		part, cancel := share(ctx, len(addrs)-i)
		if caught := protect(func() { conn, err = dial(part, "tcp", to.String()) }); caught != nil {
			conn, err = nil, g.panicked("Dial", caught)
		}
		cancel()
		if err == nil && conn == nil {
			err = errors.New("Dial has returned no connection")
		}
		if err == nil {
			return conn, to, nil
		}
	}
	return nil, to, err
}

// share returns a context for the first of n attempts, which leaves time for the others.
func share(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	deadline, _ := ctx.Deadline()
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(n))
}

// dialProblem says in few words, without addresses, why a connection failed.
func dialProblem(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timed out"
	}
	return "no connection"
}

// header asks for the headers of a plain request.
func (g *egressGate) header(ctx context.Context, r *egress.Request) (add http.Header) {
	host, err := egress.ParseHost(r.Host)
	if err != nil {
		return nil
	}
	asked := EgressRequest{
		Key: g.sb.hooks.managerKey(), SandboxID: g.sb.id,
		Host: host.String(), Port: int(r.Port), Method: r.Method, Path: r.Path,
	}
	if caught := protect(func() { add = g.opts.Header(ctx, asked) }); caught != nil {
		g.panicked("Header", caught)
	}
	return add
}

// panicked logs a panic of a function of the user's, and returns it as an error.
func (g *egressGate) panicked(function string, caught *panicError) error {
	g.sb.log("a function of EgressOptions has panicked", "function", function, "panic", caught.value, "stack", string(caught.stack))
	return caught
}

// full reports whether all the bytes that the sandbox may have were carried.
func (g *egressGate) full() bool { return g.cfg.MaxBytes > 0 && g.carried.Load() >= g.cfg.MaxBytes }

func (g *egressGate) fullText() string {
	return "this sandbox has carried the " + strconv.FormatInt(g.cfg.MaxBytes, 10) + " bytes that it may"
}

// env is what commands have in their environment for the way out.
func (g *egressGate) env() map[string]string {
	const none = "localhost,127.0.0.1,::1"
	return map[string]string{
		"HTTP_PROXY": g.proxy, "HTTPS_PROXY": g.proxy, "ALL_PROXY": g.proxy, "NO_PROXY": none,
		"http_proxy": g.proxy, "https_proxy": g.proxy, "all_proxy": g.proxy, "no_proxy": none,
		"NODE_USE_ENV_PROXY": "1", // without it, Node does not look
	}
}
