//go:build linux && (amd64 || arm64)

package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/wire"
	"github.com/sandbox-go/sandbox/internal/proc"
)

// errLost: whoever could have told how the command ended is gone.
var errLost = errors.New("supervisor died")

// A Process is a command that a supervisor of the pool has started.
type Process struct {
	pool    *Pool
	sup     *supervisor
	uid     int64 // as Nursery.Settle takes it
	streams *proc.Streams

	once   sync.Once     // closes ended
	ended  chan struct{} // the command itself has, or it will not be known
	empty  chan struct{} // nothing is left, or the supervisor is not
	exited chan struct{} // ended, and its output is with the sinks
	over   chan struct{}
	exit   backend.Exit // once ended is closed
	err    error        // once ended is closed

	mu      sync.Mutex // guards what follows
	isEmpty bool
	lost    bool
	kills   []chan []backend.Survivor // the answers that are due
}

// answerTime is how long a start may take longer than its context.
const answerTime = 10 * time.Second

// Start starts a command. Of spec it uses the streams only. It keeps the rules of
// [backend.Instance].
func (p *Pool) Start(ctx context.Context, start *wire.Start, spec *backend.Spec) (*Process, error) {
	start.HasInput, start.Terminal = spec.Stdin != nil, spec.Terminal
	frame, err := wire.Append(nil, start)
	if err != nil {
		return nil, &backend.StartError{Reason: backend.TooLong, Detail: err.Error()}
	}
	s, err := p.getSent(ctx, frame)
	if err != nil {
		return nil, resources(err)
	}
	q, err := p.startOn(ctx, s, start, spec)
	if err == nil && ctx.Err() != nil {
		q.Discard()
		if err := q.Kill(); err != nil {
			return nil, err
		}
		return nil, ctx.Err()
	}
	return q, err
}

// resources makes a supervisor that did not start a command that did not: there
// was no process, no thread or no memory for it.
func resources(err error) error {
	if errors.Is(err, ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := &backend.StartError{Reason: backend.NoResources, Detail: err.Error()}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Errno = int(errno)
	}
	return e
}

// startOn hears what came of a Start that s was sent.
func (p *Pool) startOn(ctx context.Context, s *supervisor, start *wire.Start, spec *backend.Spec) (*Process, error) {
	m, err := s.answer(ctx)
	switch m := m.(type) {
	case *wire.Refused:
		p.put(s)
		return nil, &m.StartError
	case *wire.Started:
		q, err := p.started(s, start, spec)
		if err != nil {
			p.drop(s)
		}
		return q, err
	}
	p.drop(s)
	return nil, fmt.Errorf("%w: %w", errLost, err)
}

func (p *Pool) started(s *supervisor, start *wire.Start, spec *backend.Spec) (*Process, error) {
	n := 2
	switch {
	case start.Terminal != nil:
		n = 1
	case start.HasInput:
		n = 3
	}
	files := s.rights.Take(n)
	if files == nil {
		return nil, errors.New("no descriptors came")
	}
	streams, err := proc.NewStreams(files, spec)
	if err != nil {
		return nil, err
	}
	q := &Process{
		pool: p, sup: s, uid: -1, streams: streams,
		ended: make(chan struct{}), empty: make(chan struct{}),
		exited: make(chan struct{}), over: make(chan struct{}),
	}
	if start.Own {
		q.uid = start.UID
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		go streams.Finish()
		return nil, errLost
	}
	p.tasks.Go(q.listen)
	go q.complete()
	return q, nil
}

// listen hears the supervisor until nothing of the command is left.
func (q *Process) listen() {
	defer close(q.empty)
	for !q.idle() {
		m, err := q.sup.reader.Next()
		switch m := m.(type) {
		case *wire.Exit:
			q.end(m.Exit, nil)
		case *wire.Empty:
			q.mu.Lock()
			q.isEmpty = true
			q.mu.Unlock()
		case *wire.Killed:
			q.mu.Lock()
			q.kills[0] <- m.Survivors
			q.kills = q.kills[1:]
			q.mu.Unlock()
		default:
			q.lose(fmt.Errorf("%w: %w", errLost, err))
			return
		}
	}
	q.pool.put(q.sup)
}

// idle reports whether the supervisor can take another command: nothing is left
// of this one, and no answer is due.
func (q *Process) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.isEmpty && len(q.kills) == 0
}

// lose ends what can no longer be known.
func (q *Process) lose(err error) {
	q.pool.drop(q.sup)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost = true
	q.end(backend.Exit{}, err)
	for _, k := range q.kills {
		close(k)
	}
	q.kills = nil
}

// end says how the command ended. The first call counts.
func (q *Process) end(exit backend.Exit, err error) {
	q.once.Do(func() {
		q.exit, q.err = exit, err
		close(q.ended)
	})
}

// complete says when the command has ended, and when its output is over.
func (q *Process) complete() {
	<-q.ended
	q.streams.Flush()
	close(q.exited)
	select {
	case <-q.streams.Over():
	case <-q.empty:
		q.streams.Finish()
	}
	close(q.over)
	<-q.empty
	q.streams.Finish()
}

// Wait implements [backend.Process].
func (q *Process) Wait() (backend.Exit, error) {
	<-q.exited
	return q.exit, q.err
}

// OutputOver implements [backend.Process].
func (q *Process) OutputOver() <-chan struct{} { return q.over }

// Empty is closed when nothing of the command is left, or nobody knows.
func (q *Process) Empty() <-chan struct{} { return q.empty }

// Discard implements [backend.Process].
func (q *Process) Discard() { q.streams.Discard() }

// Signal implements [backend.Process].
func (q *Process) Signal(s backend.Signal) error {
	if !s.Valid() {
		return fmt.Errorf("%v is no signal", s)
	}
	select {
	case <-q.ended:
		return os.ErrProcessDone
	default:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isEmpty || q.lost {
		return os.ErrProcessDone
	}
	return q.sup.send(&wire.Signal{Signal: s})
}

// Resize implements [backend.Resizer].
func (q *Process) Resize(size backend.TerminalSize) error { return q.streams.Resize(size) }

// Kill implements [backend.Process].
func (q *Process) Kill() error {
	survivors, err := q.kill()
	q.streams.Finish()
	if err != nil {
		return err
	}
	if len(survivors) == 0 {
		<-q.over
		return nil
	}
	err = &backend.SurvivorsError{Survivors: survivors}
	q.end(backend.Exit{}, err)
	<-q.over
	return err
}

// kill asks the supervisor, or, where that has died, whoever inherited what it
// left.
func (q *Process) kill() ([]backend.Survivor, error) {
	answer := make(chan []backend.Survivor, 1)
	q.mu.Lock()
	switch {
	case q.lost:
		q.mu.Unlock()
		return q.pool.nursery.Settle(q.uid)
	case q.isEmpty:
		q.mu.Unlock()
		return nil, nil
	}
	q.kills = append(q.kills, answer)
	err := q.sup.send(&wire.Kill{})
	q.mu.Unlock()
	if err != nil {
		q.sup.conn.Close() // listen will notice
	}
	survivors, ok := <-answer
	if !ok {
		return q.pool.nursery.Settle(q.uid)
	}
	return survivors, nil
}
