//go:build linux && (amd64 || arm64)

package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/pool"
	"github.com/sandbox-go/sandbox/internal/agent/wire"
)

// How many supervisors a service has ready ahead of need, and keeps at most.
const (
	minIdle = 2
	maxIdle = 32
)

// ErrEnded: the agent has ended, and has not done what it was asked for.
var ErrEnded = pool.ErrClosed

// A Local is an agent beside the service. Its methods may be called concurrently.
type Local struct {
	process *os.Process
	conn    *net.UnixConn
	reader  *wire.Reader // for listen
	rights  *pool.Rights // for listen
	pool    *pool.Pool
	done    chan struct{}

	mu       sync.Mutex // guards what follows, and makes each send one write
	ended    bool
	requests int
	waiting  map[int]chan<- reply
}

// A reply is what came of a request.
type reply struct {
	conn      *net.UnixConn
	survivors []backend.Survivor
	err       error
}

// NewLocal starts an agent. Dir is where its program may be put for a moment,
// where one may not be started from memory.
func NewLocal(dir string) (*Local, error) {
	conn, process, err := launch(dir)
	if err != nil {
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	l := &Local{
		process: process, conn: conn, rights: pool.NewRights(conn),
		done: make(chan struct{}), waiting: make(map[int]chan<- reply),
	}
	l.reader = wire.NewReader(bufio.NewReader(l.rights))
	if err := pool.Greet(conn); err != nil {
		conn.Close()
		process.Wait()
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	l.pool = pool.New(l, minIdle, maxIdle)
	go l.listen()
	return l, nil
}

// Done is closed when the agent has ended. Everything it had started is then
// being killed, and its outcome is unknown.
func (l *Local) Done() <-chan struct{} { return l.done }

// Close ends the agent and everything that it has started, and waits for that.
func (l *Local) Close() {
	l.pool.Close()
	l.conn.CloseWrite() // fails when the agent has ended already
	<-l.done
}

// Start starts a command by the rules of [backend.Instance]. Of spec it uses the
// streams, of start all else.
func (l *Local) Start(ctx context.Context, start *wire.Start, spec *backend.Spec) (Process, error) {
	p, err := l.pool.Start(ctx, start, spec)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Sweep ends every process of a user whose processes belong to one sandbox.
func (l *Local) Sweep(ctx context.Context, uid int64) error {
	left, err := l.pool.Sweep(ctx, uid)
	if err == nil && len(left) > 0 {
		err = &backend.SurvivorsError{Survivors: left}
	}
	return err
}

// listen hears the agent until it ends.
func (l *Local) listen() {
	defer close(l.done)
	for {
		m, err := l.reader.Next()
		switch m := m.(type) {
		case *wire.Spawned:
			l.answer(m.ID, l.spawned(m))
		case *wire.Settled:
			l.answer(m.ID, reply{survivors: m.Survivors})
		default:
			l.end(err)
			return
		}
	}
}

func (l *Local) spawned(m *wire.Spawned) reply {
	if m.Errno != 0 {
		return reply{err: os.NewSyscallError("start a supervisor", syscall.Errno(m.Errno))}
	}
	fds := l.rights.Take(1)
	if fds == nil {
		return reply{err: errors.New("no socket came")}
	}
	f := os.NewFile(uintptr(fds[0]), "supervisor")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return reply{err: err}
	}
	return reply{conn: conn.(*net.UnixConn)}
}

func (l *Local) answer(id int, r reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w, ok := l.waiting[id]; ok {
		w <- r
		delete(l.waiting, id)
	}
}

// end ends what the agent has started: its supervisors must not outlive it, since
// nobody would inherit what they leave.
func (l *Local) end(err error) {
	l.mu.Lock()
	l.ended = true
	for _, w := range l.waiting {
		w <- reply{err: fmt.Errorf("%w: %w", ErrEnded, err)}
	}
	l.waiting = nil
	l.mu.Unlock()
	l.pool.Close()
	l.conn.Close()
	l.rights.Close()
	l.process.Wait()
}

// request sends what message makes of an id, and waits for the reply.
func (l *Local) request(message func(id int) wire.Message) reply {
	w := make(chan reply, 1)
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return reply{err: ErrEnded}
	}
	l.requests++
	l.waiting[l.requests] = w
	err := wire.Write(l.conn, message(l.requests))
	l.mu.Unlock()
	if err != nil {
		l.conn.CloseRead() // listen will notice
	}
	return <-w
}

// Spawn implements [pool.Nursery].
func (l *Local) Spawn() (*net.UnixConn, error) {
	r := l.request(func(id int) wire.Message { return &wire.Spawn{ID: id} })
	return r.conn, r.err
}

// Settle implements [pool.Nursery].
func (l *Local) Settle(uid int64) ([]backend.Survivor, error) {
	r := l.request(func(id int) wire.Message { return &wire.Settle{ID: id, UID: uid} })
	return r.survivors, r.err
}
