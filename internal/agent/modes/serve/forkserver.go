//go:build linux && (amd64 || arm64)

package serve

import (
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/modes/harden"
	"github.com/sandbox-go/sandbox/internal/agent/shared/pool"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/proc"
)

// forkTime is how long a fork server may take, and forkLook how often it is looked
// meanwhile whether a command has stopped it. What supervisors leave is not killed then.
const (
	forkTime = 3 * time.Second
	forkLook = 50 * time.Millisecond
)

// forkTries is how many fork servers are asked for one supervisor.
const forkTries = 5

// A forkServer is a process that starts supervisors, which the kernel keeps from signalling
// the agent. Commands can end it. Then there is another one, and the commands of the two
// cannot signal each other.
type forkServer struct {
	pid    int
	conn   *net.UnixConn
	reader *wire.Reader
}

// mustScope reports whether commands have to be kept from signalling the agent, and can be:
// they cannot signal one that is root's.
func mustScope() bool { return os.Geteuid() != 0 && harden.CanScope() }

// spawnScoped is spawn by the fork server. Where that ends before it has answered, so does
// what it may have started, whose socket is closed then.
func (n *spawner) spawnScoped(number int) (fd int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for range forkTries {
		fd, err = socketTo(func(theirs int) error { return n.forkScoped(number, theirs) })
		if refused := (*backend.StartError)(nil); err == nil || errors.As(err, &refused) {
			break
		}
	}
	return fd, err
}

// scope has supervisors be started by a fork server from now on, and starts one.
func (n *spawner) scope() {
	n.scoped = true
	go func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.ensureForkServer() // an error is the first spawn's to tell
	}()
}

func (n *spawner) ensureForkServer() (err error) {
	if n.server == nil {
		n.server, err = n.newForkServer()
	}
	return err
}

func (n *spawner) forkScoped(number, socket int) error {
	if err := n.ensureForkServer(); err != nil {
		return err
	}
	var refused *backend.StartError
	err := n.children.Start(func() error {
		pid, err := n.server.fork(socket)
		if err == nil {
			n.supervisors[pid] = number
		}
		return err
	})
	if err != nil && !errors.As(err, &refused) {
		n.end(n.server)
		n.server = nil
	}
	return err
}

// newForkServer starts a fork server. Kill spares it as it does a supervisor.
func (n *spawner) newForkServer() (*forkServer, error) {
	s := new(forkServer)
	fd, err := socketTo(func(theirs int) error {
		return n.children.Start(func() (err error) {
			s.pid, err = n.fork("forkserver", 0, theirs)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	if s.conn, err = unixConn(fd); err != nil {
		return nil, err
	}
	s.reader = wire.NewReader(s.conn)
	if err := pool.Greet(s.conn); err != nil {
		n.end(s)
		return nil, err
	}
	return s, nil
}

// fork has the server start a supervisor with that socket. No child may be reaped or
// killed meanwhile: nobody else knows yet what the new one is.
func (s *forkServer) fork(socket int) (pid int, err error) {
	s.conn.SetDeadline(time.Now().Add(forkTime))
	answered := make(chan struct{})
	defer close(answered)
	go s.giveUpStopped(answered)
	frame, err := wire.Append(nil, &wire.Spawn{})
	if err != nil {
		return 0, err
	}
	if _, _, err := s.conn.WriteMsgUnix(frame, unix.UnixRights(socket), nil); err != nil {
		return 0, err
	}
	m, err := s.reader.Next()
	switch m := m.(type) {
	case *wire.Started:
		return m.PID, nil
	case *wire.Refused:
		return 0, &m.Err
	}
	return 0, errors.Join(errors.New("the fork server has ended"), err)
}

// giveUpStopped ends the wait for the server, until answered is closed, if that is stopped.
func (s *forkServer) giveUpStopped(answered <-chan struct{}) {
	for {
		select {
		case <-answered:
			return
		case <-time.After(forkLook):
			if proc.Stopped(s.pid) {
				s.conn.Close()
				return
			}
		}
	}
}

// end kills a fork server.
func (n *spawner) end(s *forkServer) {
	s.conn.Close()
	n.children.Hold(func() {
		if _, ok := n.supervisors[s.pid]; ok { // else it has been reaped
			unix.Kill(s.pid, unix.SIGKILL)
		}
	})
}
