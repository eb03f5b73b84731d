package sandbox

import (
	"context"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

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
	if g := h.sb.egress; g != nil {
		maps.Copy(merged, g.env())
	}
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
