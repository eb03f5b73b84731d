//go:build linux && (amd64 || arm64)

package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/peer"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/proc"
)

// silence is how long a supervisor that is to answer may say nothing: one that is at
// work on a kill says so every second, but a machine may be busy. It leaves time to kill
// what the supervisor leaves, within the 10 s of a kill.
const silence = 5 * time.Second

// startTime is how long a supervisor may take to start a command.
const startTime = 10 * time.Second

// peer returns the supervisor as what has one command.
func (s *supervisor) peer() *peer.Peer { return peer.New(s, silence, false) }

// A Process is a command that a supervisor of the pool has started.
type Process struct {
	*proc.Outcome // empty too when the supervisor is not left
	pool          *Pool
	sup           *supervisor
	peer          *peer.Peer
	uid           int64 // as Spawner.KillOrphans takes it
}

// Start starts a command. Of spec it uses the streams only. It keeps the rules of
// [backend.Instance].
func (p *Pool) Start(ctx context.Context, start *wire.Start, spec *backend.Spec) (*Process, error) {
	start.HasInput, start.Terminal = spec.Stdin != nil, spec.Terminal
	return p.StartHanding(ctx, start, spec, nil)
}

// StartHanding is Start for a command whose pipes are another process's: hand is called with
// copies of what [wire.Started] brings. Where a command without input and terminal has ended
// already, it is not called, and the sinks of spec get the output. A nil hand gives all output
// to the sinks.
func (p *Pool) StartHanding(ctx context.Context, start *wire.Start, spec *backend.Spec, hand func(fds []int) error) (*Process, error) {
	frame, err := wire.Append(nil, start)
	if err != nil {
		return nil, &backend.StartError{Reason: backend.TooLong, Detail: err.Error()}
	}
	for {
		s, err := p.get(ctx)
		if err != nil {
			return nil, unstarted(err)
		}
		q, err := p.startOn(ctx, s, frame, start, spec, hand)
		if !errors.Is(err, peer.ErrUnsent) {
			return q, err
		}
	}
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

// startOn has s start a command. After peer.ErrUnsent s has ended, as supervisors that
// have nothing to do may, and another is to be asked.
func (p *Pool) startOn(ctx context.Context, s *supervisor, frame []byte, start *wire.Start, spec *backend.Spec, hand func(fds []int) error) (*Process, error) {
	uid := int64(-1)
	if start.Own {
		uid = start.UID
	}
	bounded, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	asked := s.peer()
	m, err := asked.Begin(bounded, func() error {
		_, err := s.conn.Write(frame)
		return err
	}, s.reader.Next)
	if errors.Is(err, syscall.ECONNRESET) && bounded.Err() == nil {
		// It ended before it had read all that was sent, which is the start: no kill was.
		err = peer.ErrUnsent
	}
	switch m := m.(type) {
	case *wire.Refused:
		p.put(s)
		return nil, &m.Err
	case *wire.Started:
		return p.started(s, asked, start, spec, hand, uid)
	}
	left := (*backend.SurvivorsError)(nil)
	switch {
	case errors.As(err, &left):
		p.drop(s)
		return nil, err
	case errors.Is(err, peer.ErrUnsent):
		p.giveUp(s, -1) // it may be stopped
		return nil, err
	case err != nil && err == bounded.Err():
		s.rights.Close()
		p.put(s)
	default:
		survivors, settleErr := p.giveUp(s, uid)
		if settleErr != nil {
			return nil, errors.Join(err, settleErr)
		}
		if len(survivors) > 0 {
			return nil, &backend.SurvivorsError{Survivors: survivors}
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // nothing is left
	}
	return nil, cmp.Or(err, peer.ErrLost)
}

// started makes a Process of a command that runs, or that has ended already. After
// an error the supervisor has ended, and the command with it.
func (p *Pool) started(s *supervisor, asked *peer.Peer, start *wire.Start, spec *backend.Spec, hand func(fds []int) error, uid int64) (q *Process, err error) {
	defer func() {
		if err != nil {
			p.giveUp(s, uid)
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
	q = &Process{Outcome: proc.NewOutcome(), pool: p, sup: s, peer: asked, uid: uid}
	more := true
	for more && s.buffered.Buffered() > 0 {
		more = q.hear()
	}
	var streams *proc.Streams
	if q.peer.Idle() && start.Terminal == nil && (hand == nil || !start.HasInput) {
		streams = proc.Drain(fds, spec)
	} else if hand != nil {
		streams = proc.HandedOver()
		err = hand(fds)
		for _, fd := range fds {
			unix.Close(fd)
		}
		if err != nil {
			return nil, err
		}
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
		return nil, peer.ErrLost
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
	if q.peer.Release() {
		q.pool.put(q.sup)
	} else {
		q.pool.drop(q.sup)
	}
	q.SetEmpty()
}

// hear hears one message, and reports whether there will be more.
func (q *Process) hear() bool {
	m, err := q.sup.reader.Next()
	switch m := m.(type) {
	case *wire.Exit:
		q.End(m.Exit, nil)
	case *wire.Empty, *wire.Killed, *wire.Working:
		q.peer.Hear(m)
	default:
		q.peer.Lose()
		q.End(backend.Exit{}, fmt.Errorf("supervisor: %w: %v", peer.ErrLost, err))
		return false
	}
	return !q.peer.Idle()
}

// Signal implements [backend.Process].
func (q *Process) Signal(ctx context.Context, s backend.Signal) error {
	return q.peer.Signal(ctx, q.Ended(), s)
}

// Kill implements [backend.Process]. It asks the supervisor, or, where that does not
// answer, whoever inherits what it leaves.
func (q *Process) Kill() error {
	survivors, err := q.peer.Kill()
	if err != nil {
		survivors, err = q.pool.spawner.KillOrphans(q.sup.number, q.uid)
	}
	q.Finish()
	if err != nil {
		return err
	}
	if len(survivors) > 0 {
		err = &backend.SurvivorsError{Survivors: survivors}
		q.End(backend.Exit{}, err)
	}
	<-q.OutputOver()
	return err
}
