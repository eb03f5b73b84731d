package sandbox

import (
	"container/list"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// An execImpl is an Exec.
type execImpl struct {
	id      string
	sb      *sandboxImpl
	cmd     Command // without Stdin, Stdout and Stderr
	out     *output
	copier  *copier   // to Command.Stdout and Stderr; nil where there are none
	given   io.Reader // Command.Stdin, guarded
	stdin   *stdin    // nil when it is not kept open
	began   time.Time
	release func() // gives the execution's slot back

	listed, finished *list.Element // in sb's lists, or nil; guarded by sb.mu

	ctx       context.Context // ends when the execution is to end; its cause says why
	stop      context.CancelCauseFunc
	stopTimer context.CancelFunc
	skipGrace chan struct{} // closed when no grace is left
	once      sync.Once     // closes skipGrace
	done      chan struct{}

	observed context.Context // of the next call of the observer, which alone uses it

	started    chan struct{} // closed when it is known whether there is a process
	startKnown func()        // closes started
	refusal    error         // once started is closed: why there is no execution

	mu      sync.Mutex      // guards all below
	rec     Execution       // without the output and, while it runs, Duration
	over    bool            // the command is over
	process backend.Process // nil before it has started, and when it is over
}

// newExec returns the handle of a command whose time begins now. Whoever does not start
// it calls drop. When it is over it calls release.
func newExec(ctx context.Context, sb *sandboxImpl, cmd Command, release func()) *execImpl {
	cmd.Env = maps.Clone(cmd.Env)
	cmd.Argv = slices.Clone(cmd.Argv)
	if cmd.Terminal != nil {
		cmd.Terminal = new(*cmd.Terminal)
	}
	given, out := cmd.Stdin, newOutput(cmd.MaxOutput, cmd.MaxTail)
	copier := newCopier(out, cmd.Stdout, cmd.Stderr)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, nil, nil
	h := &execImpl{
		id:        newID("exec_"),
		sb:        sb,
		cmd:       cmd,
		out:       out,
		copier:    copier,
		began:     time.Now(),
		release:   release,
		stopTimer: func() {},
		skipGrace: make(chan struct{}),
		done:      make(chan struct{}),
		observed:  context.WithoutCancel(ctx),

		started: make(chan struct{}),
	}
	if given != nil {
		h.given = &guardedReader{r: given, failed: h.stdinFailed}
	}
	if cmd.OpenStdin || cmd.Terminal != nil {
		h.stdin = newStdin(h.given)
	}
	h.startKnown = sync.OnceFunc(func() { close(h.started) })
	h.ctx, h.stop = context.WithCancelCause(ctx)
	if cmd.Timeout > 0 {
		h.ctx, h.stopTimer = context.WithTimeoutCause(h.ctx, cmd.Timeout, errTimeout)
	}
	h.rec = Execution{ID: h.id, SandboxID: sb.id, Command: cmd, Status: Running, StartedAt: h.began}
	return h
}

func (h *execImpl) ID() string            { return h.id }
func (h *execImpl) Done() <-chan struct{} { return h.done }
func (h *execImpl) sealed()               {}

func (h *execImpl) Wait(ctx context.Context) (*Execution, error) {
	select {
	case <-h.done:
	case <-ctx.Done():
		select {
		case <-h.done: // a record is to be had
		default:
			return nil, ctx.Err()
		}
	}
	return h.Execution(), nil
}

func (h *execImpl) Execution() *Execution {
	h.mu.Lock()
	rec := h.rec
	h.mu.Unlock()
	rec.Stdout, rec.Stderr = h.out.snapshot()
	if rec.Status == Running {
		rec.Duration = time.Since(h.began)
	}
	return &rec
}

func (h *execImpl) Stream(from Offsets) (Stream, error) {
	r, err := h.out.open(from)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (h *execImpl) Reader(ctx context.Context, s StreamID, from int64) (io.ReadCloser, error) {
	r, err := h.out.openOne(s, from)
	if err != nil {
		return nil, err
	}
	return &streamReader{chunks: r, ctx: ctx}, nil
}

func (h *execImpl) Since(from Offsets) ([]Chunk, Offsets, error) { return h.out.since(from) }

func (h *execImpl) WriteStdin(ctx context.Context, p []byte) (int, error) {
	if h.stdin == nil {
		return 0, h.errorf("write stdin", errNoStdin)
	}
	n, err := h.stdin.write(ctx, p)
	if err != nil {
		err = h.errorf("write stdin", err)
	}
	return n, err
}

func (h *execImpl) CloseStdin(ctx context.Context) error {
	if h.stdin == nil {
		return h.errorf("close stdin", errNoStdin)
	}
	if err := h.stdin.finish(ctx); err != nil {
		return h.errorf("close stdin", err)
	}
	return nil
}

func (h *execImpl) Signal(ctx context.Context, s Signal) error {
	if !s.Valid() {
		return h.errorf("signal", invalidf(FieldSignal, "%d is no signal: they are 1 to 64", int(s)))
	}
	return h.act(ctx, "signal", func(ctx context.Context, p backend.Process) error { return p.Signal(ctx, s) })
}

func (h *execImpl) Resize(ctx context.Context, size TerminalSize) error {
	if h.cmd.Terminal == nil {
		return h.errorf("resize", invalidf(FieldTerminal, "it has no terminal: set Terminal when it is started"))
	}
	return h.act(ctx, "resize", func(ctx context.Context, p backend.Process) error {
		r, ok := p.(backend.Resizer)
		if !ok {
			return errHidden("Terminal", p, "backend.Resizer")
		}
		return r.Resize(ctx, size)
	})
}

// act does something to the process, if there still is one. It waits for one that is
// being started.
func (h *execImpl) act(ctx context.Context, op string, do func(context.Context, backend.Process) error) error {
	select {
	case <-h.started:
	case <-h.done:
	case <-ctx.Done():
		return h.errorf(op, ctx.Err())
	}
	h.mu.Lock()
	p := h.process
	h.mu.Unlock()
	if p == nil {
		return h.errorf(op, errOver)
	}
	bounded, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	if err := answer(bounded, op, func() error { return do(bounded, p) }); err != nil {
		if bounded.Err() != nil && ctx.Err() == nil { // not the caller's time was up
			err = noAnswer(op)
		}
		return h.errorf(op, err)
	}
	return nil
}

func (h *execImpl) errorf(op string, err error) error {
	return &Error{Op: op, Sandbox: h.sb.id, Exec: h.id, Err: err}
}

func (h *execImpl) Cancel(ctx context.Context) error {
	h.stop(errCancel)
	if _, err := h.Wait(ctx); err != nil {
		return h.errorf("cancel", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var left *SurvivorsError
	if errors.As(h.rec.Err, &left) || errors.Is(h.rec.Err, ErrLost) {
		return h.rec.Err // whatever it was that ended the command
	}
	return nil
}

// cancelNow cancels without grace, and does not wait.
func (h *execImpl) cancelNow() {
	h.stop(errCancel)
	h.once.Do(func() { close(h.skipGrace) })
}

// size returns how many bytes the record keeps.
func (h *execImpl) size() int64 {
	size := h.out.size() + int64(len(h.cmd.Shell)+len(h.cmd.Key))
	for _, arg := range h.cmd.Argv {
		size += int64(len(arg))
	}
	for name, value := range h.cmd.Env {
		size += int64(len(name) + len(value))
	}
	return size
}
