//go:build linux && (amd64 || arm64)

package serve

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/modes/supervise"
	"github.com/sandbox-go/sandbox/internal/proc"
)

// A spawner is the parent of supervisors. As a child subreaper it inherits what
// those that die leave behind: whatever child is no supervisor is such an orphan.
// Its methods may be called concurrently.
type spawner struct {
	children    *proc.Children
	supervisors map[int]int // their numbers by pid; guarded by children
	as          *proc.UserSignaler
	null, locks int
	contained   bool // as newSpawner says
	scoped      bool // supervisors cannot signal the agent

	mu     sync.Mutex  // guards server, and makes supervisors of it one by one
	server *forkServer // starts supervisors where they are scoped; nil while there is none
}

// newSpawner returns a spawner. Contained is told to supervisors.
func newSpawner(contained bool) (*spawner, error) {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("open /dev/null", err)
	}
	locks, err := unix.MemfdCreate("locks", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w: allow it in the seccomp profile of the container or of the service", err)
	}
	if err := unix.Fchmod(locks, 0); err != nil { // in gVisor it can be opened through /proc
		return nil, os.NewSyscallError("fchmod", err)
	}
	n := &spawner{
		children:    proc.NewChildren(),
		supervisors: make(map[int]int),
		as:          proc.NewUserSignaler(locks),
		null:        null,
		locks:       locks,
		contained:   contained,
	}
	n.children.Spare = func(pid int) bool {
		_, ok := n.supervisors[pid]
		return ok
	}
	n.children.Reaped = func(pid int, _ unix.WaitStatus, _ *unix.Rusage, _ bool) { delete(n.supervisors, pid) }
	return n, nil
}

// spawn starts the supervisor of that number and returns the socket to it.
func (n *spawner) spawn(number int) (int, error) {
	if n.scoped {
		return n.spawnScoped(number)
	}
	return socketTo(func(theirs int) error {
		return n.children.Start(func() error {
			_, err := n.fork("supervise", number, theirs)
			return err
		})
	})
}

// socketTo calls f with one end of a socket, and returns the other.
func socketTo(f func(theirs int) error) (int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pair[1])
	if err := f(pair[1]); err != nil {
		unix.Close(pair[0])
		return -1, err
	}
	return pair[0], nil
}

// fork starts a process of the agent in that mode, as supervisor of that number. Children.Start
// must have called the caller.
func (n *spawner) fork(mode string, number, socket int) (int, error) {
	// Who forks keeps a processor until the child executes, and that may wait for memory.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1))
	pid, err := supervise.Start(mode, supervise.Files{Null: n.null, Socket: socket, Locks: n.locks}, n.contained, 0)
	if err == nil {
		n.supervisors[pid] = number
	}
	return pid, err
}

// killOrphans kills the orphans there are, and the supervisor of that number before, which
// its owner has given up: it may be stopped. It returns what survives. UID is whose the
// orphans are, if nobody else has processes of that number, or negative. A supervisor
// that is ending is waited for: its socket ends before its children are inherited.
func (n *spawner) killOrphans(number int, uid int64) []backend.Survivor {
	for begin := time.Now(); n.losing(number) && time.Since(begin) < closeTime; {
		n.children.WaitReaped(10 * time.Millisecond)
	}
	var user *proc.User
	if uid > 0 {
		user = n.as.User(int(uid))
	}
	return n.children.Kill(user)
}

// losing reports whether a supervisor is about to end. The one of that number is, since
// it is killed.
func (n *spawner) losing(number int) (losing bool) {
	n.children.Hold(func() {
		for pid, other := range n.supervisors {
			if number > 0 && other == number {
				unix.Kill(pid, unix.SIGKILL)
				losing = true
			}
			losing = losing || proc.Exiting(pid)
		}
	})
	return losing
}

// busy reports whether there are supervisors.
func (n *spawner) busy() (any bool) {
	n.children.Hold(func() { any = len(n.supervisors) > 0 })
	return any
}

// closeTime is how long supervisors that have lost their owner may take. It is
// more than a kill of theirs does.
const closeTime = 12 * time.Second

// close waits for the supervisors to end, which their owners' sockets have told
// them to, and kills what is left. One that is stopped cannot end by itself.
func (n *spawner) close() {
	n.mu.Lock()
	if n.server != nil {
		n.server.conn.Close()
	}
	n.mu.Unlock()
	for begin := time.Now(); n.busy() && time.Since(begin) < closeTime; {
		n.children.Hold(func() {
			for pid := range n.supervisors {
				if proc.Stopped(pid) {
					unix.Kill(pid, unix.SIGKILL)
				}
			}
		})
		n.killOrphans(0, -1)
		n.children.WaitReaped(50 * time.Millisecond)
	}
	n.children.Hold(func() { clear(n.supervisors) })
	n.killOrphans(0, -1)
}
