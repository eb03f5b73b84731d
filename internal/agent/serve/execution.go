//go:build linux && (amd64 || arm64)

package serve

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/pool"
	"github.com/sandbox-go/sandbox/internal/agent/wire"
)

// An execution is one stream of the connection: a command and what is said about
// it.
type execution struct {
	stream  *yamux.Stream
	started chan struct{}
	process *pool.Process // once started is closed; nil when it was not
	cancel  context.CancelFunc
}

// execute runs the command, and returns when nothing of it is left.
func (c *container) execute(stream *yamux.Stream, r *wire.Reader, start *wire.Start) {
	defer stream.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e := &execution{stream: stream, started: make(chan struct{}), cancel: cancel}
	told := make(chan struct{})
	spec := &backend.Spec{Stdout: &output{stream, 1, told}, Stderr: &output{stream, 2, told}}
	spec.Terminal = start.Terminal
	if start.HasInput {
		in := c.inputs.open(start.Input)
		defer in.Close()
		spec.Stdin = in
	}
	var listening sync.WaitGroup
	listening.Go(func() { e.listen(r) })
	e.run(ctx, c, start, spec, told)
	listening.Wait()
}

// run starts the command and tells what becomes of it. Writing does not fail in
// ways that matter: a service that is gone is noticed by reading. It closes told
// when it has told that the command runs.
func (e *execution) run(ctx context.Context, c *container, start *wire.Start, spec *backend.Spec, told chan<- struct{}) {
	err := resolve(start)
	before := c.oom.kills()
	if err == nil {
		e.process, err = c.pool.Start(ctx, start, spec)
	}
	if err != nil {
		e.process = nil
		close(e.started)
		e.refuse(err)
		return
	}
	close(e.started)
	wire.Write(e.stream, &wire.Started{})
	close(told)
	exit, err := e.process.Wait()
	if err != nil {
		wire.Write(e.stream, &wire.Lost{Why: err.Error()})
		return
	}
	if kills := c.oom.kills() - before; kills > 0 && exit.Usage != nil {
		exit.Usage.OOMKills = kills
		exit.OOMKilled = exit.Signal == backend.SIGKILL && ctx.Err() == nil
	}
	// As a rule all three come at once, and one write tells them.
	frame, _ := wire.Append(nil, &wire.Exit{Exit: exit})
	for _, next := range []struct {
		when <-chan struct{}
		tell wire.Message
	}{{e.process.OutputOver(), &wire.Over{}}, {e.process.Empty(), &wire.Empty{}}} {
		select {
		case <-next.when:
		default:
			e.stream.Write(frame)
			frame = frame[:0]
			<-next.when
		}
		frame, _ = wire.Append(frame, next.tell)
	}
	e.stream.Write(frame)
}

func (e *execution) refuse(err error) {
	var refused *backend.StartError
	if errors.As(err, &refused) {
		wire.Write(e.stream, &wire.Refused{StartError: *refused})
		return
	}
	wire.Write(e.stream, &wire.Lost{Why: err.Error()})
}

// listen obeys the service until it closes the stream, which it does when it
// knows that nothing is left, or when it is gone.
func (e *execution) listen(r *wire.Reader) {
	for {
		m, err := r.Next()
		if err != nil {
			e.cancel()
			e.stream.SetWriteDeadline(time.Unix(1, 0))
			<-e.started
			if e.process != nil {
				e.process.Discard()
				e.process.Kill()
			}
			return
		}
		if _, ok := m.(*wire.Kill); ok {
			e.cancel()
		}
		<-e.started
		if e.process == nil {
			continue
		}
		switch m := m.(type) {
		case *wire.Signal:
			e.process.Signal(m.Signal)
		case *wire.Resize:
			e.process.Resize(m.TerminalSize)
		case *wire.Discard:
			e.process.Discard()
		case *wire.Kill:
			e.kill()
		}
	}
}

func (e *execution) kill() {
	err := e.process.Kill()
	var left *backend.SurvivorsError
	switch {
	case err == nil:
		wire.Write(e.stream, &wire.Killed{})
	case errors.As(err, &left):
		wire.Write(e.stream, &wire.Killed{Survivors: left.Survivors})
	default:
		wire.Write(e.stream, &wire.Lost{Why: err.Error()})
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
