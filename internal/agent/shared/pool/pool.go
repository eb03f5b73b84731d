//go:build linux && (amd64 || arm64)

// Package pool is the owner's side of supervisors: it has a few ready, gives each
// command one, and takes it back when nothing of the command is left. It keeps as many as
// are used at once, and lets go of what has had nothing to do for a while.
package pool

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/peer"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// A Spawner starts supervisors, and inherits what those that die leave behind. Its
// methods may be called concurrently.
type Spawner interface {
	// Spawn starts a supervisor and returns the socket to it, and its number.
	Spawn() (*net.UnixConn, int, error)

	// KillOrphans kills the supervisor of that number, which was given up, and what
	// supervisors that died have left behind, and returns what survives. UID is
	// whose it is, if nobody else has processes of that number, or negative.
	KillOrphans(number int, uid int64) ([]backend.Survivor, error)
}

// ErrClosed: the pool has been closed.
var ErrClosed = peer.ErrEnded

// maxSpawning is how many supervisors are started at once.
const maxSpawning = 4

// aheadDelay is how long a command may take before another supervisor is made ready for the
// next one. Most have given theirs back by then, and to start one meanwhile would take them
// more time than they need.
const aheadDelay = 20 * time.Millisecond

// Idle says how many supervisors a Pool has that have nothing to do. A Go program takes
// longer to start than most commands, so those that were just used are kept: where
// commands come one after the other, that is as many as run at once.
type Idle struct {
	Ready int // are started ahead of need, soon after they are missing, and always kept
	Kept  int // are kept for the time Quiet
	Most  int // are kept for the time Brief

	Quiet, Brief time.Duration
}

// A Pool is the supervisors of one owner. Its methods may be called concurrently.
type Pool struct {
	spawner Spawner
	sizes   Idle
	tasks   sync.WaitGroup // spawns, and readers of supervisors

	mu       sync.Mutex // guards what follows
	all      map[*supervisor]bool
	idle     []*supervisor // the last is used first: its memory is warm. The first is idle for longest
	trimming *time.Timer   // calls trim
	due      time.Time     // when trimming fires; zero when it does not
	ahead    *time.Timer   // starts what is to be ready
	planned  bool          // ahead fires
	waiting  []chan result
	spawning int
	closed   bool
}

type result struct {
	s   *supervisor
	err error
}

// New returns a Pool of what n starts.
func New(n Spawner, sizes Idle) *Pool {
	p := &Pool{spawner: n, sizes: sizes, all: make(map[*supervisor]bool)}
	p.trimming = time.AfterFunc(time.Hour, p.trim)
	p.trimming.Stop()
	p.ahead = time.AfterFunc(time.Hour, p.spawnAhead)
	p.ahead.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spawnLocked(sizes.Ready)
	return p
}

// Close ends all supervisors, which kill what they supervise, and waits until
// their sockets are no longer read.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.trimming.Stop()
	p.ahead.Stop()
	for s := range p.all {
		s.conn.Close()
	}
	for _, w := range p.waiting {
		w <- result{err: ErrClosed}
	}
	p.waiting, p.idle = nil, nil
	p.mu.Unlock()
	p.tasks.Wait()
}

// get returns a supervisor that has nothing to do.
func (p *Pool) get(ctx context.Context) (*supervisor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	if n := len(p.idle); n > 0 {
		s := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.planLocked()
		p.mu.Unlock()
		return s, nil
	}
	w := make(chan result, 1)
	p.waiting = append(p.waiting, w)
	p.spawnLocked(len(p.waiting))
	p.mu.Unlock()
	select {
	case r := <-w:
		return r.s, r.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	p.waiting = slices.DeleteFunc(p.waiting, func(c chan result) bool { return c == w })
	p.mu.Unlock()
	select {
	case r := <-w: // given at the same moment
		if r.err == nil {
			p.put(r.s)
		}
	default:
	}
	return nil, ctx.Err()
}

// put takes a supervisor that has nothing to do.
func (p *Pool) put(s *supervisor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		s.conn.Close()
	case len(p.waiting) > 0:
		p.waiting[0] <- result{s: s}
		p.waiting = p.waiting[1:]
	case len(p.idle) < p.sizes.Most:
		s.idleSince = time.Now()
		p.idle = append(p.idle, s)
		p.trimLocked()
	default:
		p.endLocked(s)
	}
}

// endLocked ends a supervisor that has nothing to do.
func (p *Pool) endLocked(s *supervisor) {
	delete(p.all, s)
	s.conn.Close()
}

// trim lets go of the supervisors that were not needed for long.
func (p *Pool) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = time.Time{}
	p.trimLocked()
}

// trimLocked is trim, and has it called again when the next is due.
func (p *Pool) trimLocked() {
	for !p.closed && len(p.idle) > p.sizes.Ready {
		keep := p.sizes.Quiet
		if len(p.idle) > p.sizes.Kept {
			keep = p.sizes.Brief
		}
		due := p.idle[0].idleSince.Add(keep)
		if left := time.Until(due); left > 0 {
			if p.due.IsZero() || due.Before(p.due) {
				p.due = due
				p.trimming.Reset(left)
			}
			return
		}
		p.endLocked(p.idle[0])
		p.idle = slices.Delete(p.idle, 0, 1)
	}
}

// drop forgets a supervisor, whose reader the caller has.
func (p *Pool) drop(s *supervisor) {
	s.rights.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, s)
	s.conn.Close()
}

// giveUp ends a supervisor that does not answer any more, and kills what it leaves. It
// returns what survives.
func (p *Pool) giveUp(s *supervisor, uid int64) ([]backend.Survivor, error) {
	p.drop(s)
	return p.spawner.KillOrphans(s.number, uid)
}

// spawnLocked starts supervisors until so many are being started.
func (p *Pool) spawnLocked(missing int) {
	for !p.closed && p.spawning < min(missing, maxSpawning) {
		p.spawning++
		p.tasks.Go(p.spawn)
	}
}

// planLocked has what is to be ready started soon, if it is missing then.
func (p *Pool) planLocked() {
	if !p.closed && !p.planned && len(p.idle) < p.sizes.Ready {
		p.planned = true
		p.ahead.Reset(aheadDelay)
	}
}

func (p *Pool) spawnAhead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.planned = false
	p.spawnLocked(max(p.sizes.Ready-len(p.idle), len(p.waiting)))
}

func (p *Pool) spawn() {
	s, err := p.newSupervisor()
	if errors.As(err, new(wordlessError)) {
		s, err = p.newSupervisor()
	}
	if err == nil {
		p.put(s)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spawning--
	if err != nil && len(p.waiting) > 0 {
		n := 1
		if errors.Is(unstarted(err), backend.NoResources) {
			n = len(p.waiting) // to find that out for each of them would take a fraction of a second each time
		}
		for _, w := range p.waiting[:n] {
			w <- result{err: err}
		}
		p.waiting = p.waiting[n:]
	}
	p.spawnLocked(len(p.waiting))
	if err == nil {
		p.planLocked()
	}
}

func (p *Pool) newSupervisor() (*supervisor, error) {
	conn, number, err := p.spawner.Spawn()
	if err != nil {
		return nil, err
	}
	s := newSupervisor(conn, number)
	p.mu.Lock()
	closed := p.closed
	p.all[s] = true
	p.mu.Unlock()
	if closed {
		err = ErrClosed
	} else {
		if err = Greet(conn); err != nil {
			p.spawner.KillOrphans(number, -1)
		}
	}
	if err != nil {
		p.drop(s)
		return nil, err
	}
	return s, nil
}

// Sweep makes one pass over users each of which belongs to one sandbox: it kills every
// process of theirs. It returns what is left of each user that has processes left, which
// may be about to end.
func (p *Pool) Sweep(ctx context.Context, uids []int64) (map[int64][]backend.Survivor, error) {
	s, err := p.get(ctx)
	if err != nil {
		return nil, err
	}
	left := make(map[int64][]backend.Survivor)
	_, err = s.peer().AskAlone(&wire.Sweep{UIDs: uids}, func() (wire.Message, error) {
		m, err := s.reader.Next()
		if m, ok := m.(*wire.Swept); ok {
			left[m.UID] = m.Survivors
		}
		return m, err
	})
	if err != nil {
		p.giveUp(s, -1)
		return nil, err
	}
	p.put(s)
	return left, nil
}
