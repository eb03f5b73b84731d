//go:build linux && (amd64 || arm64)

package serve

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/pool"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/proc"
)

// execute runs the commands that a stream brings, one after the other, of which
// start is the first.
func (c *container) execute(stream *yamux.Stream, r *wire.Reader, start *wire.Start) {
	e := c.start(stream, start)
	for {
		m, err := r.Next()
		if err != nil {
			e.abandon()
			return
		}
		if next, ok := m.(*wire.Start); ok {
			<-e.done // the service knows already that nothing is left
			e = c.start(stream, next)
			continue
		}
		e.obey(m)
	}
}

// An execution is a command and what is said about it.
type execution struct {
	stream  *yamux.Stream
	user    *proc.User // whose it is, if nobody else's too
	out     *outbox    // to stream
	started chan struct{}
	process *pool.Process // once started is closed; nil when it was not
	err     error         // once started is closed: why it was not
	cancel  context.CancelFunc
	done    chan struct{} // closed when nothing of it is left, and that was told
}

// start starts a command, and leaves a goroutine to tell what becomes of it.
func (c *container) start(stream *yamux.Stream, start *wire.Start) *execution {
	ctx, cancel := context.WithCancel(context.Background())
	e := &execution{
		stream: stream, out: &outbox{w: stream},
		started: make(chan struct{}), cancel: cancel, done: make(chan struct{}),
	}
	refused := resolve(start)
	if start.Own {
		e.user = c.spawner.as.User(int(start.UID))
	}
	go func() {
		defer close(e.done)
		defer cancel()
		e.run(ctx, c, start, refused)
		stream.Shrink() // another command may be long in coming
	}()
	return e
}

// run runs the command. Writing does not fail in ways that matter: a service that
// is gone is noticed by reading.
func (e *execution) run(ctx context.Context, c *container, start *wire.Start, refused error) {
	told := make(chan struct{})
	spec := &backend.Spec{
		Stdout:   &output{e.out, 1, told},
		Stderr:   &output{e.out, 2, told},
		Terminal: start.Terminal,
	}
	if start.HasInput && start.Handing == 0 {
		in := c.inputs.open(start.Input)
		defer in.Close()
		spec.Stdin = in
	}
	err := refused
	before := c.oom.Kills()
	handed := false
	switch {
	case err != nil:
	case start.Handing > 0:
		e.process, err = c.pool.StartHanding(ctx, start, spec, func(fds []int) error {
			handed = true
			return c.handing.send(&wire.Handed{Number: start.Handing, Count: len(fds)}, fds...)
		})
	default:
		e.process, err = c.pool.Start(ctx, start, spec)
	}
	if err != nil {
		e.process, e.err = nil, err
		close(e.started)
		e.refuse(ctx)
		return
	}
	close(e.started)
	select {
	case <-e.process.Empty(): // it will all be told at once
		e.out.hold()
		defer e.out.release()
	default:
	}
	wire.Write(e.out, &wire.Started{Handed: handed})
	close(told)
	exit, err := e.process.Exit()
	var frame []byte
	var left *backend.SurvivorsError
	switch {
	case err == nil:
		if kills := c.oom.Kills() - before; kills > 0 && exit.Usage != nil {
			exit.Usage.OOMKills = kills
			exit.OOMKilled = exit.Signal == backend.SIGKILL && ctx.Err() == nil
		}
		frame, _ = wire.Append(nil, &wire.Exit{Exit: exit})
	case errors.As(err, &left): // the answer to the kill tells it
		<-e.process.Empty()
	default: // how it ended is unknown, but not whether it has
		left := e.process.Kill()
		if left == nil && ctx.Err() != nil {
			break // it was to be killed, and the answer to that tells it
		}
		wire.Write(e.out, &wire.Lost{Why: errors.Join(err, left).Error()})
		return
	}
	e.end(frame)
}

// end tells, after frame, that the output is over and that nothing is left: as a rule
// at once, and in one write.
func (e *execution) end(frame []byte) {
	for _, next := range []struct {
		when <-chan struct{}
		tell wire.Message
	}{{e.process.OutputOver(), &wire.Over{}}, {e.process.Empty(), &wire.Empty{}}} {
		select {
		case <-next.when:
		default:
			e.out.Write(frame)
			frame = frame[:0]
			<-next.when
		}
		frame, _ = wire.Append(frame, next.tell)
	}
	e.out.Write(frame)
}

// refuse tells that the command does not run, unless that is the answer to a kill.
func (e *execution) refuse(ctx context.Context) {
	var refused *backend.StartError
	switch {
	case errors.As(e.err, &refused):
		wire.Write(e.out, &wire.Refused{Err: *refused})
	case ctx.Err() == nil:
		wire.Write(e.out, &wire.Lost{Why: e.err.Error()})
	}
}

// abandon ends an execution whose service is gone, or wants no more of it.
func (e *execution) abandon() {
	e.cancel()
	e.stream.SetWriteDeadline(time.Unix(1, 0))
	<-e.started
	if e.process != nil {
		e.process.DiscardOutput()
		e.process.Kill()
	}
	<-e.done
}

// obey does what the service asks for. A kill takes its time, in which more may be asked.
func (e *execution) obey(m wire.Message) {
	if _, ok := m.(*wire.Kill); ok {
		e.cancel()
		go e.kill()
		return
	}
	<-e.started
	if e.process == nil {
		return
	}
	switch m := m.(type) {
	case *wire.Signal:
		e.process.Signal(context.Background(), m.Signal)
	case *wire.Resize:
		e.process.Resize(context.Background(), m.Size)
	case *wire.Discard:
		e.process.DiscardOutput()
	}
}

// haltTime is how long a kill may take before the other commands of its user wait for it.
const haltTime = time.Second

// kill ends the command, however far it has come, and answers after all else has been
// told, so that the service knows then how the command ended.
func (e *execution) kill() {
	defer e.user.Halt(haltTime)()
	stop := wire.SayWorking(func(m wire.Message) { wire.Write(e.out, m) })
	<-e.started
	err := e.err
	if e.process != nil {
		err = e.process.Kill()
	}
	var refused *backend.StartError
	var left *backend.SurvivorsError
	switch {
	case errors.As(err, &left):
	case err == nil, errors.As(err, &refused), errors.Is(err, context.Canceled):
		<-e.done
		stop()
		wire.Write(e.out, &wire.Killed{})
		return
	}
	stop()
	if left != nil {
		wire.Write(e.out, &wire.Killed{Survivors: left.Survivors})
	} else {
		wire.Write(e.out, &wire.Lost{Why: err.Error()})
	}
}

// An output sends a stream's bytes, once it has been told that the command runs.
type output struct {
	w      io.Writer
	stream int
	told   <-chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	<-o.told
	return len(p), wire.Write(o.w, &wire.Output{Stream: o.stream, Data: p})
}
