package backendtest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// A fault is a rule that a backend breaks, and the case that must notice.
type fault struct {
	name     string
	caughtBy string

	create  func(context.Context, *backend.Config) // changes what Create gets
	start   func(*backend.Spec)                    // changes what Start gets
	process func(backend.Process) backend.Process  // changes what Start gives
	refusal func(error) error                      // changes the error that Start gives
	forever bool                                   // Start does not look at its context
	destroy bool                                   // Destroy does nothing
	hide    bool                                   // the instance is decorated by embedding
	files   func(fileFunc) fileFunc                // changes what File does
	dial    dialFault
	listen  listenFault
	info    func(*backend.Info)
}

func faults() []fault {
	return slices.Concat(commandFaults(), fileFaults(), portFaults(), egressFaults(), terminalFaults())
}

func commandFaults() []fault {
	return []fault{
		{name: "nothing-exits-as-it-did", caughtBy: "a-command-runs", process: onExit(func(_ backend.Exit, err error) (backend.Exit, error) {
			return backend.Exit{}, err
		})},

		// Output
		{name: "streams-swapped", caughtBy: "streams-are-apart", start: func(s *backend.Spec) {
			s.Stdout, s.Stderr = s.Stderr, s.Stdout
		}},
		{name: "streams-merged", caughtBy: "streams-are-apart", start: func(s *backend.Spec) { s.Stderr = s.Stdout }},
		{name: "byte-dropped", caughtBy: "a-pausing-reader-gets-all", start: edit(func(p []byte) []byte {
			return p[:len(p)-len(p)>>14&1]
		})},
		{name: "byte-twice", caughtBy: "characters-survive-every-boundary", start: edit(func(p []byte) []byte {
			return append(bytes.Clone(p), p[len(p)-len(p)>>14&1:]...)
		})},
		{name: "crlf-translated", caughtBy: "odd-bytes-are-exact", start: edit(func(p []byte) []byte {
			return bytes.ReplaceAll(p, []byte("\r\n"), []byte("\n"))
		})},
		{name: "utf8-repaired", caughtBy: "a-split-character-arrives", start: edit(func(p []byte) []byte {
			return bytes.ToValidUTF8(p, []byte("\uFFFD"))
		})},
		{name: "nul-ends-text", caughtBy: "every-byte-passes", start: edit(func(p []byte) []byte {
			p, _, _ = bytes.Cut(p, []byte{0})
			return p
		})},
		{name: "last-newline-lost", caughtBy: "exit-is-waited-for", start: edit(func(p []byte) []byte {
			return bytes.TrimSuffix(p, []byte("\n"))
		})},
		{name: "no-back-pressure", caughtBy: "a-reader-holds-the-command", start: func(s *backend.Spec) {
			s.Stdout = &queued{sink: s.Stdout}
		}},
		{name: "late-output-cut-after-2s", caughtBy: "late-output-is-not-cut", process: func(p backend.Process) backend.Process {
			go func() {
				p.Exit()
				time.Sleep(2 * time.Second)
				p.DiscardOutput()
			}()
			return p
		}},

		// The end
		{name: "exit-before-output", caughtBy: "exit-delivers-full-pipes", start: func(s *backend.Spec) {
			s.Stdout = &queued{sink: s.Stdout, delay: time.Millisecond}
		}},
		{name: "signal-as-code", caughtBy: "a-signal-is-not-an-exit", process: onExit(func(e backend.Exit, err error) (backend.Exit, error) {
			if e.Signal != 0 {
				return backend.Exit{Code: 128 + int(e.Signal)}, err
			}
			return e, err
		})},
		{name: "seven-bit-codes", caughtBy: "every-exit-code-is-told", process: onExit(func(e backend.Exit, err error) (backend.Exit, error) {
			e.Code &= 127
			return e, err
		})},
		{name: "every-sigkill-is-memory", caughtBy: "a-signal-is-not-an-exit", process: onExit(func(e backend.Exit, err error) (backend.Exit, error) {
			e.OOMKilled = e.Signal == backend.SIGKILL
			return e, err
		})},
		{name: "gone-is-unknown", caughtBy: "a-lost-sandbox-invents-nothing", refusal: func(err error) error {
			return errors.New(err.Error())
		}},
		{name: "exit-invented", caughtBy: "a-lost-sandbox-invents-nothing", process: onExit(func(e backend.Exit, err error) (backend.Exit, error) {
			if err != nil {
				return backend.Exit{Code: 255}, nil
			}
			return e, nil
		})},
		{name: "over-at-exit", caughtBy: "output-is-waited-for", process: func(p backend.Process) backend.Process {
			over := make(chan struct{})
			go func() {
				p.Exit()
				close(over)
			}()
			return &broken{Process: p, over: over}
		}},
		{name: "over-never", caughtBy: "streams-are-apart", process: func(p backend.Process) backend.Process {
			return &broken{Process: p, over: make(chan struct{})}
		}},

		// Kill, signal, discard
		{name: "kill-of-the-group-only", caughtBy: "sessions-do-not-escape", process: onKill(func(p backend.Process) error {
			p.Signal(context.Background(), backend.SIGKILL)
			p.Exit()
			return nil
		})},
		{name: "kill-does-nothing", caughtBy: "an-ended-context-kills", process: onKill(func(backend.Process) error { return nil })},
		{name: "kill-not-awaited", caughtBy: "a-kill-is-the-last-call-of-a-sink", process: onKill(func(p backend.Process) error {
			time.AfterFunc(time.Second, func() { p.Kill() })
			return nil
		})},
		{name: "kill-after-a-minute", caughtBy: "a-held-command-can-be-killed", process: onKill(func(p backend.Process) error {
			time.Sleep(time.Minute)
			return p.Kill()
		})},
		{name: "kill-with-a-warning", caughtBy: "no-grace-is-no-signal", process: onKill(func(p backend.Process) error {
			p.Signal(context.Background(), backend.SIGTERM)
			time.Sleep(time.Second)
			return p.Kill()
		})},
		{name: "kill-of-everybody", caughtBy: "others-go-on", process: killingAll()},
		{name: "kill-fails-after-the-end", caughtBy: "a-kill-may-be-repeated", process: onKill(func(p backend.Process) error {
			if p.Signal(context.Background(), backend.SIGCONT) != nil {
				return io.ErrClosedPipe
			}
			return p.Kill()
		})},
		{name: "signal-does-nothing", caughtBy: "a-grace-is-given", process: onSignal(func(backend.Process, backend.Signal) error { return nil })},
		{name: "signal-to-the-dead", caughtBy: "an-ended-command-takes-no-signal", process: onSignal(func(p backend.Process, s backend.Signal) error {
			p.Signal(context.Background(), s)
			return nil
		})},
		{name: "discard-does-nothing", caughtBy: "a-discard-is-the-last-call-of-a-sink", process: func(p backend.Process) backend.Process {
			return &broken{Process: p, discard: func() {}}
		}},

		{name: "signal-without-its-context", caughtBy: "an-ended-context-acts-on-nothing", process: onSignal(func(p backend.Process, s backend.Signal) error {
			return p.Signal(context.Background(), s)
		})},
		{name: "signals-not-of-posix", caughtBy: "every-signal-arrives", process: onSignal(func(p backend.Process, s backend.Signal) error {
			return p.Signal(context.Background(), min(s, backend.SIGTERM))
		})},
		{name: "signal-lost", caughtBy: "a-signal-reaches-the-group", process: onSignal(func(backend.Process, backend.Signal) error { return nil })},
		{name: "signal-to-everybody", caughtBy: "a-signal-reaches-nobody-else", process: signallingAll()},
		{name: "signal-to-sessions", caughtBy: "a-signal-stays-in-its-session", process: onSignal(func(p backend.Process, _ backend.Signal) error {
			return p.Kill()
		})},
		{name: "signal-to-what-is-left", caughtBy: "what-is-left-takes-no-signal", process: onSignal(func(p backend.Process, s backend.Signal) error {
			p.Signal(context.Background(), s)
			return nil
		})},
		{name: "timeout-kills-nothing", caughtBy: "a-detached-start-is-bounded", process: onKill(func(backend.Process) error { return nil })},

		// Input
		{name: "no-input-never-ends", caughtBy: "no-input-is-an-empty-one", start: func(s *backend.Spec) {
			if s.Stdin == nil {
				s.Stdin = endless{}
			}
		}},
		{name: "input-never-ends", caughtBy: "input-ends", start: func(s *backend.Spec) {
			if s.Stdin != nil {
				s.Stdin = io.MultiReader(s.Stdin, endless{})
			}
		}},
		{name: "input-read-ahead", caughtBy: "input-comes-as-it-is-written", start: func(s *backend.Spec) {
			if s.Stdin != nil {
				s.Stdin = &greedy{r: s.Stdin}
			}
		}},
		{name: "written-input-collected", caughtBy: "input-is-written-while-it-runs", start: func(s *backend.Spec) {
			if s.Stdin != nil {
				s.Stdin = &greedy{r: s.Stdin}
			}
		}},
		{name: "written-input-without-bound", caughtBy: "an-unread-write-ends-with-its-context", start: func(s *backend.Spec) {
			if s.Stdin != nil {
				s.Stdin = &greedy{r: s.Stdin}
			}
		}},
		{name: "written-input-torn", caughtBy: "long-writes-pass", start: func(s *backend.Spec) {
			if s.Stdin != nil {
				s.Stdin = torn{s.Stdin}
			}
		}},
		{name: "input-not-read-to-its-end", caughtBy: "a-failing-input-ends", start: func(s *backend.Spec) {
			if s.Stdin != nil {
				s.Stdin = io.LimitReader(s.Stdin, 5)
			}
		}},
		{name: "environment-lost", caughtBy: "the-variables-of-a-command-win", start: func(s *backend.Spec) { s.Env = nil }},

		// The sandbox
		{name: "setting-ignored", caughtBy: "a-refused-create-leaves-nothing", create: func(_ context.Context, cfg *backend.Config) { cfg.Image = "" }},
		{name: "create-leaks", caughtBy: "a-closed-sandbox-leaves-nothing", create: func(context.Context, *backend.Config) { go leak() }},
		{name: "start-leaks", caughtBy: "ten-thousand-runs-leave-nothing", start: func(*backend.Spec) { go leak() }},
		{name: "start-ignores-its-context", caughtBy: "an-ended-context-creates-nothing", forever: true},
		{name: "files-and-ports-hidden", caughtBy: "what-is-promised-is-there", hide: true},
		{name: "resize-hidden", caughtBy: "what-is-promised-is-there", process: func(p backend.Process) backend.Process {
			return struct{ backend.Process }{p}
		}},
		{name: "destroy-does-nothing", caughtBy: "a-close-ends-all", destroy: true},
	}
}

// faulty is a backend with a fault.
type faulty struct {
	backend.Backend
	fault fault
}

func (b faulty) Info() backend.Info {
	info := b.Backend.Info()
	if b.fault.info != nil {
		b.fault.info(&info)
	}
	return info
}

func (b faulty) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	if b.fault.create != nil {
		changed := *cfg
		b.fault.create(ctx, &changed)
		cfg = &changed
	}
	i, err := b.Backend.Create(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if b.fault.hide {
		return struct{ backend.Instance }{i}, nil
	}
	return faultyInstance{i, b.fault}, nil
}

type faultyInstance struct {
	backend.Instance
	fault fault
}

func (i faultyInstance) Start(ctx context.Context, spec *backend.Spec) (backend.Process, error) {
	if i.fault.forever {
		ctx = context.WithoutCancel(ctx)
	}
	if i.fault.start != nil {
		changed := *spec
		i.fault.start(&changed)
		spec = &changed
	}
	p, err := i.Instance.Start(ctx, spec)
	if err != nil && i.fault.refusal != nil {
		err = i.fault.refusal(err)
	}
	if err == nil && i.fault.process != nil {
		p = i.fault.process(p)
	}
	return p, err
}

func (i faultyInstance) File(ctx context.Context, r *backend.FileRequest) error {
	do := i.Instance.(backend.Filer).File
	if i.fault.files != nil {
		do = i.fault.files(do)
	}
	return do(ctx, r)
}

func (i faultyInstance) Dial(ctx context.Context, port int) (net.Conn, error) {
	if i.fault.dial == nil {
		return i.Instance.(backend.Dialer).Dial(ctx, port)
	}
	return i.fault.dial(ctx, i.Instance.(backend.Dialer), port)
}

func (i faultyInstance) Listen(ctx context.Context) (net.Listener, error) {
	l, err := i.Instance.(backend.Listener).Listen(ctx)
	if err == nil && i.fault.listen != nil {
		l = i.fault.listen(l)
	}
	return l, err
}

func (i faultyInstance) Destroy(ctx context.Context) error {
	if i.fault.destroy {
		return nil
	}
	return i.Instance.Destroy(ctx)
}

// broken is a process of which some methods are others.
type broken struct {
	backend.Process
	over    chan struct{}
	wait    func(backend.Exit, error) (backend.Exit, error)
	kill    func(backend.Process) error
	signal  func(backend.Process, backend.Signal) error
	discard func()
	resize  func() error
}

func (b *broken) Exit() (backend.Exit, error) {
	exit, err := b.Process.Exit()
	if b.wait != nil {
		return b.wait(exit, err)
	}
	return exit, err
}

func (b *broken) OutputOver() <-chan struct{} {
	if b.over != nil {
		return b.over
	}
	return b.Process.OutputOver()
}

func (b *broken) DiscardOutput() {
	if b.discard != nil {
		b.discard()
		return
	}
	b.Process.DiscardOutput()
}

func (b *broken) Signal(ctx context.Context, s backend.Signal) error {
	if b.signal != nil {
		return b.signal(b.Process, s)
	}
	return b.Process.Signal(ctx, s)
}

func (b *broken) Kill() error {
	if b.kill != nil {
		return b.kill(b.Process)
	}
	return b.Process.Kill()
}

func (b *broken) Resize(ctx context.Context, size backend.TerminalSize) error {
	if b.resize != nil {
		return b.resize()
	}
	return b.Process.(backend.Resizer).Resize(ctx, size)
}

func onExit(f func(backend.Exit, error) (backend.Exit, error)) func(backend.Process) backend.Process {
	return func(p backend.Process) backend.Process { return &broken{Process: p, wait: f} }
}

func onKill(f func(backend.Process) error) func(backend.Process) backend.Process {
	return func(p backend.Process) backend.Process { return &broken{Process: p, kill: f} }
}

func onSignal(f func(backend.Process, backend.Signal) error) func(backend.Process) backend.Process {
	return func(p backend.Process) backend.Process { return &broken{Process: p, signal: f} }
}

// reachingAll breaks each process so that it can reach all that were started up to
// then.
func reachingAll(f func(p backend.Process, all func() []backend.Process) *broken) func(backend.Process) backend.Process {
	var mu sync.Mutex // guards all
	var all []backend.Process
	return func(p backend.Process) backend.Process {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, p)
		return f(p, func() []backend.Process {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all)
		})
	}
}

// killingAll makes each kill one of all processes that were ever started.
func killingAll() func(backend.Process) backend.Process {
	return reachingAll(func(p backend.Process, all func() []backend.Process) *broken {
		return &broken{Process: p, kill: func(backend.Process) error {
			for _, victim := range all() {
				victim.Kill()
			}
			return nil
		}}
	})
}

// signallingAll makes each signal one to all processes that were ever started.
func signallingAll() func(backend.Process) backend.Process {
	return reachingAll(func(p backend.Process, all func() []backend.Process) *broken {
		return &broken{Process: p, signal: func(_ backend.Process, s backend.Signal) error {
			for _, other := range all() {
				other.Signal(context.Background(), s)
			}
			return nil
		}}
	})
}

// edit makes the output something else.
func edit(f func([]byte) []byte) func(*backend.Spec) {
	return func(s *backend.Spec) {
		s.Stdout, s.Stderr = edited{s.Stdout, f}, edited{s.Stderr, f}
	}
}

type edited struct {
	sink io.Writer
	f    func([]byte) []byte
}

func (e edited) Write(p []byte) (int, error) {
	e.sink.Write(e.f(p))
	return len(p), nil
}

// queued is a sink that never blocks, and delivers later.
type queued struct {
	sink  io.Writer
	delay time.Duration

	mu    sync.Mutex // guards queue
	queue [][]byte
}

func (q *queued) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, bytes.Clone(p))
	if len(q.queue) == 1 {
		go q.deliver()
	}
	return len(p), nil
}

func (q *queued) deliver() {
	for {
		time.Sleep(q.delay)
		q.mu.Lock()
		first := q.queue[0]
		q.mu.Unlock()
		q.sink.Write(first)
		q.mu.Lock()
		q.queue = q.queue[1:]
		end := len(q.queue) == 0
		q.mu.Unlock()
		if end {
			return
		}
	}
}

// endless is an input that neither has anything nor ends.
type endless struct{}

func (endless) Read([]byte) (int, error) {
	leak()
	return 0, nil
}

// greedy is an input that is read to its end before anything of it is given.
type greedy struct {
	r    io.Reader
	once sync.Once
	all  bytes.Buffer
}

func (g *greedy) Read(p []byte) (int, error) {
	g.once.Do(func() { g.all.ReadFrom(g.r) })
	return g.all.Read(p)
}

// torn loses the end of what comes in large pieces.
type torn struct{ io.Reader }

func (t torn) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	return min(n, 10_000), err
}

// leak blocks for longer than any case lasts.
func leak() { time.Sleep(24 * time.Hour) }
