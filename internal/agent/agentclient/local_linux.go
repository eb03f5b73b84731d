//go:build linux && (amd64 || arm64)

package agentclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/pool"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/cgroup"
	"github.com/sandbox-go/sandbox/internal/proc"
)

// idle says how many supervisors a service has that have nothing to do.
var idle = pool.Idle{Ready: 2, Kept: 64, Most: 64, Quiet: 30 * time.Second}

// A Local is an agent beside the service. Its methods may be called concurrently.
type Local struct {
	process  *os.Process
	enclosed bool // it is the first of its pid namespace
	conn     *net.UnixConn
	reader   *wire.Reader // for listen
	rights   *pool.Rights // for listen
	pool     *pool.Pool
	done     chan struct{}
	sockets  sockets // that were dialled

	mu       sync.Mutex // guards what follows
	ended    bool
	reaped   bool // its process has been
	requests int
	waiting  map[int]*request
}

// A request is what waits for a reply.
type request struct {
	done  chan struct{} // closed when there is a reply
	reply reply
}

// A reply is what came of a request.
type reply struct {
	number    int // of the request
	conn      *net.UnixConn
	dialed    net.Conn
	listener  net.Listener
	survivors []backend.Survivor
	err       error
}

// NewLocal starts an agent. Dir is where its program may be put for a moment,
// where one may not be started from memory.
func NewLocal(dir string) (*Local, error) {
	program := NewProgram(dir)
	defer program.Close()
	conn, process, err := launch(program, []string{"sandbox-agent", "local"}, syscall.SysProcAttr{}, cgroup.Place{})
	if err != nil {
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	if err := pool.Greet(conn); err != nil {
		conn.Close()
		process.Kill()
		process.Wait()
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	l := newLocal(conn, process)
	l.begin(idle)
	return l, nil
}

func newLocal(conn *net.UnixConn, process *os.Process) *Local {
	l := &Local{
		process: process, conn: conn, rights: pool.NewRights(conn),
		done: make(chan struct{}), waiting: make(map[int]*request),
	}
	l.reader = wire.NewReader(bufio.NewReader(l.rights))
	return l
}

// begin takes up the agent's work.
func (l *Local) begin(sizes pool.Idle) {
	l.pool = pool.New(l, sizes)
	go l.listen()
}

// Done is closed when the agent has ended. Everything it had started is then
// being killed, and its outcome is unknown.
func (l *Local) Done() <-chan struct{} { return l.done }

// Close ends the agent and everything that it has started, and waits for that.
func (l *Local) Close() {
	l.pool.Close()
	if l.enclosed {
		l.kill()
	}
	l.conn.CloseWrite() // fails when the agent has ended already
	l.await(l.done)
}

// How long an agent may be stopped, and how long it may take for what it is asked,
// with a kill of 10 s in it.
const (
	stoppedTime = 2 * time.Second
	requestTime = 30 * time.Second
	lookTime    = 250 * time.Millisecond
)

// await waits for done. An agent that is stopped, or takes too long, is killed, with
// what it has started: done is then closed soon.
func (l *Local) await(done <-chan struct{}) {
	tick := time.NewTicker(lookTime)
	defer tick.Stop()
	var stopped, waited time.Duration
	for stopped < stoppedTime && waited < requestTime {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		waited += lookTime
		if stopped += lookTime; !proc.Stopped(l.process.Pid) {
			stopped = 0
		}
	}
	l.kill()
	<-done
}

// kill ends an agent that does not answer.
func (l *Local) kill() {
	l.mu.Lock() // so that its number is its own
	defer l.mu.Unlock()
	if l.reaped {
		return
	}
	if !l.enclosed { // otherwise all that it has started ends with it
		l.process.Signal(syscall.SIGSTOP) // what it starts now would be missed
		proc.KillBelow(l.process.Pid)
	}
	l.process.Kill()
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

// Sweep makes one pass over users each of which belongs to one sandbox: it kills every
// process of theirs. It returns what is left of each user that has processes left, which
// may be about to end.
func (l *Local) Sweep(ctx context.Context, uids []int64) (map[int64][]backend.Survivor, error) {
	return l.pool.Sweep(ctx, uids)
}

// listen hears the agent until it ends.
func (l *Local) listen() {
	defer close(l.done)
	for {
		m, err := l.reader.Next()
		switch m := m.(type) {
		case *wire.Spawned:
			l.answer(m.ID, l.spawned(m))
		case *wire.OrphansKilled:
			l.answer(m.ID, reply{survivors: m.Survivors})
		case *wire.Dialed:
			l.answer(m.ID, l.dialed(m))
		case *wire.Listening:
			l.answer(m.ID, l.listening(m))
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
	f, err := l.socket()
	if err != nil {
		return reply{err: err}
	}
	defer f.Close()
	conn, err := socketOf[*net.UnixConn](f, net.FileConn)
	return reply{conn: conn, err: err}
}

// socket returns the socket that came with the last message.
func (l *Local) socket() (*os.File, error) {
	fds := l.rights.Take(1)
	if fds == nil {
		return nil, errors.New("no socket came")
	}
	return os.NewFile(uintptr(fds[0]), "agent"), nil
}

func (l *Local) answer(id int, r reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w, ok := l.waiting[id]; ok {
		r.number = id
		w.reply = r
		close(w.done)
		delete(l.waiting, id)
	}
}

// end ends what the agent has started: its supervisors must not outlive it, since
// nobody would inherit what they leave.
func (l *Local) end(err error) {
	l.mu.Lock()
	l.ended = true
	for _, w := range l.waiting {
		w.reply.err = fmt.Errorf("%w: %w", ErrEnded, err)
		close(w.done)
	}
	l.waiting = nil
	l.mu.Unlock()
	l.pool.Close()
	l.conn.Close()
	l.rights.Close()
	l.sockets.close()
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		for unix.Waitid(unix.P_PID, l.process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.process.Wait()
		l.reaped = true
	}()
	l.await(exited)
}

// request sends what message makes of an id, and waits for the reply.
func (l *Local) request(message func(id int) wire.Message) reply {
	w := &request{done: make(chan struct{})}
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return reply{err: ErrEnded}
	}
	l.requests++
	id := l.requests
	l.waiting[id] = w
	l.mu.Unlock()
	go func() {
		if wire.Write(l.conn, message(id)) != nil {
			l.conn.CloseRead() // listen will notice
		}
	}()
	l.await(w.done)
	return w.reply
}

// Spawn implements [pool.Spawner].
func (l *Local) Spawn() (*net.UnixConn, int, error) {
	r := l.request(func(id int) wire.Message { return &wire.Spawn{ID: id} })
	return r.conn, r.number, r.err
}

// KillOrphans implements [pool.Spawner].
func (l *Local) KillOrphans(number int, uid int64) ([]backend.Survivor, error) {
	r := l.request(func(id int) wire.Message { return &wire.KillOrphans{ID: id, UID: uid, Supervisor: number} })
	return r.survivors, r.err
}
