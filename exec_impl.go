package sandbox

import (
	"context"
	"errors"
	"io"
	"maps"
	"reflect"
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
	number  int    // among those of the sandbox; it is guarded by sb.mu
	release func() // gives the execution's slot back

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

// start starts the command in a goroutine that then sees it through. It returns when
// it is known whether there is a process; when there is none, the execution is over.
// An error means that there was no execution, since the sandbox was gone before. A
// backend that does not answer holds neither the caller nor the record for longer than
// a kill may take.
func (h *execImpl) start() error {
	stdin := h.given
	if h.stdin != nil {
		stdin = h.stdin
	}
	if h.copier != nil {
		go h.copier.run()
	}
	go h.run(h.spec(stdin))
	cause := h.until(h.started)
	if cause == nil {
		return h.refusal
	}
	if within(killTime, h.started) {
		return h.refusal
	}
	if h.finish(outcome{cause: cause, err: noAnswer("Start")}) {
		return nil
	}
	<-h.started // run was faster
	return h.refusal
}

// run starts the command and sees it through.
func (h *execImpl) run(spec *backend.Spec) {
	defer h.startKnown()
	p, err := h.sb.instance.Start(h.ctx, spec)
	if err != nil {
		if !h.finish(h.notStarted(err)) {
			h.sb.log("a start that was given up has failed late", "execution", h.id, "error", err)
		}
		return
	}
	h.mu.Lock()
	late := h.over
	if !late {
		h.process = p
	}
	h.mu.Unlock()
	if late {
		err := p.Kill()
		h.sb.log("a start that was given up has succeeded late; the command was killed", "execution", h.id, "error", err)
		return
	}
	h.observe(Observer.ExecutionStarted)
	h.startKnown()
	h.monitor(p)
}

// notStarted says how a start ended that gave no process. When it was told to end,
// only the context's own error says that nothing is left of it, and a *StartError or
// ErrGone that nothing ever was.
func (h *execImpl) notStarted(err error) outcome {
	gone := errors.Is(err, ErrGone)
	e := outcome{err: err}
	if h.ctx.Err() == nil {
		e.unstarted = gone
		return e
	}
	e.cause = context.Cause(h.ctx)
	var start *StartError
	own := err == h.ctx.Err() || reflect.TypeOf(e.cause).Comparable() && err == e.cause
	if gone || own || errors.As(err, &start) {
		e.err = nil
	}
	return e
}

func (h *execImpl) spec(stdin io.Reader) *backend.Spec {
	merged := make(map[string]string, len(h.sb.cfg.Env)+len(h.cmd.Env))
	maps.Copy(merged, h.sb.cfg.Env)
	maps.Copy(merged, h.cmd.Env)
	var env []string
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		env = append(env, name+"="+merged[name])
	}
	return &backend.Spec{
		Shell:    h.cmd.Shell,
		Argv:     h.cmd.Argv,
		Dir:      h.cmd.Dir,
		Env:      env,
		User:     h.cmd.User,
		Terminal: h.cmd.Terminal,
		Stdin:    stdin,
		Stdout:   sink{h.out, Stdout},
		Stderr:   sink{h.out, Stderr},
	}
}

// observe shows the record as it is now to the observer.
func (h *execImpl) observe(what func(Observer, context.Context, ExecutionEvent) context.Context) {
	events := h.sb.hooks.events()
	if events.to == nil {
		return
	}
	event := ExecutionEvent{SandboxEvent: h.sb.event(), Execution: h.Execution()}
	events.add(func() {
		if ctx := what(events.to, h.observed, event); ctx != nil {
			h.observed = ctx
		}
	}, h.size())
}

// executionEnded calls ExecutionEnded. Nothing is told of the execution afterwards.
func executionEnded(o Observer, ctx context.Context, event ExecutionEvent) context.Context {
	o.ExecutionEnded(ctx, event)
	return context.Background()
}

// stdinFailed records why Command.Stdin ended before its end.
func (h *execImpl) stdinFailed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.rec.StdinErr = err
	}
}

// monitor sees a started command through to the end.
func (h *execImpl) monitor(p backend.Process) {
	cause := h.await(p)
	var err error
	switch {
	case cause == ErrLost:
		h.discard(p)
		within(reasonTime, p.Exited())
	case cause != nil || failed(p):
		err = h.kill(p)
	case h.cmd.Wait == WaitExit:
		h.discard(p)
	}
	h.finish(outcomeOf(p, cause, err))
}

// discard has further output go nowhere. A sink that is held would hold the
// backend's Discard too.
func (h *execImpl) discard(p backend.Process) {
	h.out.drop()
	discard(p)
}

// await waits until the execution is over by itself, and returns nil, or until
// it is to end, and returns why.
func (h *execImpl) await(p backend.Process) error {
	if err := h.until(p.Exited()); err != nil || failed(p) || h.cmd.Wait == WaitExit {
		return err
	}
	return h.until(p.OutputOver())
}

// until waits for c. What was asked for wins over what happened at the same time.
func (h *execImpl) until(c <-chan struct{}) error {
	select {
	case <-c:
	case <-h.ctx.Done():
	case <-h.sb.instance.Gone():
	}
	if deadline, ok := h.ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-h.ctx.Done() // its timer may be late
	}
	if h.ctx.Err() != nil {
		return context.Cause(h.ctx)
	}
	select {
	case <-c:
		return nil
	default:
		return ErrLost
	}
}

// kill ends all of the command, gently first if that was asked for.
func (h *execImpl) kill(p backend.Process) error {
	if h.cmd.Grace > 0 {
		h.grace(p)
	}
	h.out.release()
	return kill(p)
}

// grace asks the command to end by itself, and gives it time for that.
func (h *execImpl) grace(p backend.Process) {
	timer := time.NewTimer(h.cmd.Grace)
	defer timer.Stop()
	asked := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		if p.Signal(ctx, backend.SIGTERM) == nil {
			close(asked)
			return
		}
		timer.Reset(0) // it will not end by itself
	}()
	for _, over := range []<-chan struct{}{asked, p.Exited(), p.OutputOver()} {
		select {
		case <-over:
		case <-timer.C:
			return
		case <-h.skipGrace:
			return
		case <-h.sb.instance.Gone():
			return
		}
	}
}

// finish ends the output, makes the record final once Command.Stdout and Stderr have
// got it, and tells everybody. It reports false when another finish was first.
func (h *execImpl) finish(e outcome) bool {
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		return false
	}
	h.over = true
	h.process = nil
	rec := h.rec
	h.mu.Unlock()
	e.apply(&rec)
	rec.FinishedAt = time.Now()
	rec.Duration = rec.FinishedAt.Sub(h.began)
	if h.stdin != nil {
		h.stdin.end()
	}
	if rec.Status == Failed {
		h.out.end(rec.Err)
	} else {
		h.out.end(nil)
	}
	if rec.Status != Completed {
		h.stop(nil) // it did not end by itself: the time of its writers runs
	}
	rec.OutputErr = h.copier.wait(h.ctx)
	h.drop()
	h.mu.Lock()
	h.rec = rec
	h.mu.Unlock()
	h.out.conclude()
	if e.unstarted { // whoever has h already, by its key, finds out from its record
		h.refusal = e.err
		h.sb.stop(SandboxFailed)
		h.sb.forget(h)
		h.release()
	} else {
		h.observe(executionEnded)
		h.release()
		h.sb.record(h)
	}
	close(h.done)
	return true
}

// drop lets go of the contexts and their timer.
func (h *execImpl) drop() {
	h.stop(nil)
	h.stopTimer()
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
