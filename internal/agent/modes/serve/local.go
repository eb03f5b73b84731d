//go:build linux && (amd64 || arm64)

// Package serve is the agent's mode that has supervisors and inherits the orphans
// of those that die. For a service on the same machine it hands out supervisors'
// sockets, and the service speaks to them itself. In a container it owns them, and
// multiplexes their executions on the one connection there is.
//
// When the connection ends, everything that was started is killed, and the
// process exits. It notices by reading.
package serve

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/agent/modes/harden"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// Socket is the descriptor of the socket to the service, for Local. It is its stderr
// too until it is ready, as a supervisor's is.
const Socket = 3

// Local serves a service on the same machine until it is gone. The main
// goroutine must call it.
func Local() error {
	n, err := begin(false)
	if err != nil {
		return err
	}
	defer n.close()
	provide(false)
	if err := harden.Silence(); err != nil {
		return err
	}
	l := &local{sender: sender{conn: harden.Conn(Socket)}, spawner: n, provide: func() {}}
	if err := wire.Greet(l.conn); err != nil {
		return err
	}
	return l.serve()
}

// Enclosed serves as Local does, for the first process of a pid namespace, which has
// greeted the service: when it ends, the kernel ends all else there. Limited says that
// commands may use up the memory that the process has. It calls ready when it is, or cannot
// be.
func Enclosed(limited bool, ready func(error) error) error {
	n, err := begin(limited)
	if err == nil {
		err = harden.Silence()
	}
	if err := errors.Join(ready(err), err); err != nil {
		return err
	}
	l := &local{sender: sender{conn: harden.Conn(Socket)}, spawner: n, provide: sync.OnceFunc(func() { go provide(limited) })}
	return l.serve()
}

// begin prepares the process. It keeps the main goroutine on the first thread. Contained
// says that commands may use up the memory that the process has.
func begin(contained bool) (*spawner, error) {
	runtime.LockOSThread()
	if err := harden.Process(); err != nil {
		return nil, err
	}
	return newSpawner(contained)
}

// provide has the process take the threads that it will need, and, where it is contained, the
// memory.
func provide(contained bool) {
	if contained {
		harden.Threads(containedThreads)
		harden.Memory(reserve)
	} else {
		harden.Threads(threads)
	}
}

// How many threads a spawner needs beyond its processors: in a container more of them may
// wait for memory.
const (
	threads          = 2
	containedThreads = 8
)

// reserve is how much memory a contained spawner has ahead of need, in bytes.
const reserve = 2 << 20

type local struct {
	sender
	spawner *spawner
	provide func() // is called when the first supervisor is starting, before any command is
}

// A sender sends messages with descriptors. Its methods may be called concurrently.
type sender struct {
	mu   sync.Mutex // makes each send one write
	conn harden.Conn
}

func (s *sender) send(m wire.Message, fds ...int) error {
	b, err := wire.Append(nil, m)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn.Send(b, fds...)
}

func (l *local) serve() error {
	r := wire.NewReader(l.conn)
	for {
		m, err := r.Next()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *wire.Spawn:
			err = l.spawn(m.ID)
		case *wire.KillOrphans:
			go l.killOrphans(m)
		case *wire.Dial:
			go l.dial(m)
		case *wire.Listen:
			err = l.listen(m)
		}
		if err != nil {
			return err
		}
	}
}

func (l *local) spawn(id int) error {
	fd, err := l.spawner.spawn(id)
	if err != nil {
		errno := syscall.EAGAIN
		errors.As(err, &errno)
		return l.send(&wire.Spawned{ID: id, Errno: int(errno)})
	}
	defer unix.Close(fd)
	l.provide()
	return l.send(&wire.Spawned{ID: id}, fd)
}

func (l *local) killOrphans(m *wire.KillOrphans) {
	l.send(&wire.OrphansKilled{ID: m.ID, Survivors: l.spawner.killOrphans(m.Supervisor, m.UID)})
}

// dialTime bounds what the service waits for.
const dialTime = 10 * time.Second

// dial hands out a connection to a port.
func (l *local) dial(m *wire.Dial) {
	conn, err := reach(m.Port, dialTime)
	if err != nil {
		l.send(&wire.Dialed{ID: m.ID, Refused: errors.Is(err, unix.ECONNREFUSED), Why: err.Error()})
		return
	}
	defer conn.Close()
	if err := withFD(conn, func(fd int) error { return l.send(&wire.Dialed{ID: m.ID}, fd) }); err != nil {
		l.send(&wire.Dialed{ID: m.ID, Why: err.Error()})
	}
}

// listen hands out a socket that listens on a port of the loopback address.
func (l *local) listen(m *wire.Listen) error {
	answer := &wire.Listening{ID: m.ID}
	listener, err := listenOn(m.Port)
	if err != nil {
		answer.Why = err.Error()
		return l.send(answer)
	}
	defer listener.Close()
	answer.Port = listener.Addr().(*net.TCPAddr).Port
	return withFD(listener, func(fd int) error { return l.send(answer, fd) })
}
