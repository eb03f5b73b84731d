//go:build linux && (amd64 || arm64)

package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/wire"
	"github.com/sandbox-go/sandbox/internal/proc"
)

// errLost: whoever could have told how the command ended is gone.
var errLost = errors.New("supervisor died")

// A Process is a command that a supervisor of the pool has started.
type Process struct {
	*proc.Outcome // empty too when the supervisor is not left
	pool          *Pool
	sup           *supervisor
	uid           int64 // as Nursery.Settle takes it

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
		return nil, unstarted(err)
	}
	return p.startOn(ctx, s, start, spec)
}

// unstarted turns a failure to get a supervisor into a *backend.StartError.
func unstarted(err error) error {
	var start *backend.StartError
	if errors.Is(err, ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &start) {
		return err
	}
	return proc.Lacking(err)
}

// startOn hears what came of a Start that s was sent.
func (p *Pool) startOn(ctx context.Context, s *supervisor, start *wire.Start, spec *backend.Spec) (*Process, error) {
	m, err := s.answer(ctx)
	switch m := m.(type) {
	case *wire.Refused:
		p.put(s)
		return nil, &m.StartError
	case *wire.Started:
		if ctx.Err() != nil {
			return nil, p.takeBack(ctx, s, start, spec)
		}
		return p.started(s, start, spec)
	}
	p.drop(s)
	return nil, fmt.Errorf("%w: %w", errLost, err)
}

// takeBack ends a command that runs when it is not to run any more. Its output goes
// nowhere: whoever started it takes none before the start has succeeded.
func (p *Pool) takeBack(ctx context.Context, s *supervisor, start *wire.Start, spec *backend.Spec) error {
	unheard := *spec
	unheard.Stdout, unheard.Stderr = io.Discard, io.Discard
	q, err := p.started(s, start, &unheard)
	if err == nil {
		err = q.Kill()
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// started makes a Process of a command that runs, or that has ended already. After
// an error the supervisor ends, and the command with it.
func (p *Pool) started(s *supervisor, start *wire.Start, spec *backend.Spec) (q *Process, err error) {
	defer func() {
		if err != nil {
			p.drop(s)
		}
	}()
	n := 2
	switch {
	case start.Terminal != nil:
		n = 1
	case start.HasInput:
		n = 3
	}
	fds := s.rights.Take(n)
	if fds == nil {
		return nil, errors.New("no descriptors came")
	}
	q = &Process{Outcome: proc.NewOutcome(), pool: p, sup: s, uid: -1}
	if start.Own {
		q.uid = start.UID
	}
	more := true
	for more && s.buffered.Buffered() > 0 {
		more = q.hear()
	}
	var streams *proc.Streams
	if q.isEmpty && start.Terminal == nil {
		streams = proc.Drain(fds, spec)
	} else if streams, err = proc.NewStreams(files(fds), spec); err != nil {
		return nil, err
	}
	p.mu.Lock()
	closed := p.closed
	if !closed && more {
		p.tasks.Go(q.listen)
	}
	p.mu.Unlock()
	if closed {
		go streams.Finish()
		return nil, errLost
	}
	q.Follow(streams)
	if !more {
		q.part()
	}
	return q, nil
}

func files(fds []int) []*os.File {
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "|")
	}
	return files
}

// listen hears the supervisor until nothing of the command is left.
func (q *Process) listen() {
	for q.hear() {
	}
	q.part()
}

// part gives the supervisor back after all that there was to hear.
func (q *Process) part() {
	if !q.lost {
		q.pool.put(q.sup)
	}
	q.SetEmpty()
}

// hear hears one message, and reports whether there will be more.
func (q *Process) hear() bool {
	m, err := q.sup.reader.Next()
	switch m := m.(type) {
	case *wire.Exit:
		q.End(m.Exit, nil)
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
		return false
	}
	return !q.idle()
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
	q.End(backend.Exit{}, err)
	for _, k := range q.kills {
		close(k)
	}
	q.kills = nil
}

// Signal implements [backend.Process].
func (q *Process) Signal(s backend.Signal) error {
	if !s.Valid() {
		return fmt.Errorf("%v is no signal", s)
	}
	select {
	case <-q.Ended():
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

// Kill implements [backend.Process].
func (q *Process) Kill() error {
	survivors, err := q.kill()
	q.Finish()
	if err != nil {
		return err
	}
	if len(survivors) == 0 {
		<-q.OutputOver()
		return nil
	}
	err = &backend.SurvivorsError{Survivors: survivors}
	q.End(backend.Exit{}, err)
	<-q.OutputOver()
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
