//go:build linux && (amd64 || arm64)

package proc

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
)

// Children are the children of a process that is a child subreaper, so that what
// its descendants leave behind becomes its child too. It is the only one in the
// process who reaps. Its methods may be called concurrently.
type Children struct {
	// Reaped is called with every child that has ended. None reports that none
	// is left. No call is made while another runs.
	Reaped func(pid int, status unix.WaitStatus, usage *unix.Rusage, none bool)

	// Spare names the children that Kill leaves alone; nil is none.
	Spare func(pid int) bool

	// mu is held while something is started, signalled or reaped. So a child
	// that is signalled has not been reaped, and its number is still its own.
	mu      sync.Mutex
	started *sync.Cond
	none    bool
	reaped  chan struct{} // has an element when one was reaped lately
}

// NewChildren returns the children of the calling process, which must not have
// any yet, and starts to reap.
func NewChildren() *Children {
	c := &Children{none: true, reaped: make(chan struct{}, 1)}
	c.started = sync.NewCond(&c.mu)
	go c.reap()
	return c
}

// Start calls f, which starts a child, before anything else happens to children. A
// child that has ended when f returns is reaped before Start returns.
func (c *Children) Start(f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := f()
	if err == nil {
		c.none = false
		c.collectLocked()
		if !c.none {
			c.started.Signal()
		}
	}
	return err
}

// Hold calls f while no child is reaped.
func (c *Children) Hold(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *Children) reap() {
	for {
		c.mu.Lock()
		for c.none {
			c.started.Wait()
		}
		c.mu.Unlock()
		// Leaves the child as it is, until nobody is about to signal it.
		unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
		c.mu.Lock()
		c.collectLocked()
		c.mu.Unlock()
	}
}

// collectLocked reaps every child that has ended.
func (c *Children) collectLocked() {
	var last struct {
		pid    int
		status unix.WaitStatus
		usage  unix.Rusage
	}
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WALL, &usage)
		if err == unix.EINTR {
			continue
		}
		c.none = err == unix.ECHILD
		if last.pid > 0 && c.Reaped != nil {
			c.Reaped(last.pid, last.status, &last.usage, c.none)
		}
		if pid <= 0 {
			break
		}
		last.pid, last.status, last.usage = pid, status, usage
	}
	if last.pid == 0 {
		return
	}
	select {
	case c.reaped <- struct{}{}:
	default:
	}
}

// How long a kill goes on, tries without stopping the user, and waits between
// two passes.
const (
	killTime   = 10 * time.Second
	gentleTime = 300 * time.Millisecond
	passTime   = 10 * time.Millisecond
)

// Kill ends every child that is not spared, and all their descendants. It
// returns when it has seen that none is left, or with what is left after 10 s. A
// child that has ended and that another process traces is not left, though it is not
// reaped before its tracer lets it go: None tells.
// With as it may also stop, for moments, everything else that runs as that user;
// nil leaves others alone.
func (c *Children) Kill(as *User) []backend.Survivor {
	begin := time.Now()
	for pass := 0; ; pass++ {
		if c.gone() || looksHeld(pass) && c.held() {
			return nil
		}
		switch since := time.Since(begin); {
		case since > killTime:
			return c.survivors()
		case since > gentleTime && as != nil:
			as.stopped(func() { c.strikeFor(time.Second) })
		default:
			c.killPass()
			c.WaitReaped(passTime)
		}
	}
}

// strikeFor strikes until nothing is left, but not for longer than d.
func (c *Children) strikeFor(d time.Duration) {
	begin := time.Now()
	for pass := 1; time.Since(begin) < d && !c.gone(); pass++ {
		if looksHeld(pass) && c.held() {
			return
		}
		c.killPass()
		c.WaitReaped(time.Millisecond)
	}
}

// looksHeld reports whether this pass begins with a look for what only a tracer holds:
// less and less often, since a look takes kernel memory, which bombs make slow to get.
func looksHeld(pass int) bool { return pass > 0 && pass&(pass-1) == 0 }

// None reports whether there are no children.
func (c *Children) None() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.none
}

// WaitNone waits until there are no children, or for d.
func (c *Children) WaitNone(d time.Duration) {
	for end := time.Now().Add(d); !c.None() && time.Now().Before(end); {
		c.WaitReaped(time.Until(end))
	}
}

// WaitReaped waits until children have been reaped, or for d.
func (c *Children) WaitReaped(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.reaped:
	case <-timer.C:
	}
}

// HangUp tells the processes of a session that its terminal is gone, as the
// terminal's closing would if the session's leader lived. Only Reaped may call it.
func (c *Children) HangUp(session int) {
	of := listChildren()
	for _, pid := range c.childrenLocked(of) {
		t := procRef{pid: pid, fd: -1}
		t.hangUp(session, of, maxDepth)
	}
}

func (c *Children) gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.none || c.Spare != nil && len(c.childrenLocked(listChildren())) == 0
}

// held reports whether all children that are not spared have ended and cannot be
// reaped, since their tracers have not seen it.
func (c *Children) held() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.allDeadLocked() {
		return false
	}
	c.collectLocked() // of what has ended, only what is traced is left then
	return c.allDeadLocked()
}

func (c *Children) allDeadLocked() bool {
	pids := c.childrenLocked(listChildren())
	for _, pid := range pids {
		if !dead(pid) {
			return false
		}
	}
	return len(pids) > 0
}

// childrenLocked returns the children that are not spared.
func (c *Children) childrenLocked(of childLister) []int {
	var pids []int
	for _, pid := range of(os.Getpid()) {
		if c.Spare == nil || !c.Spare(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// survivors names what a kill could not end.
func (c *Children) survivors() []backend.Survivor {
	c.mu.Lock()
	defer c.mu.Unlock()
	var left []backend.Survivor
	for _, pid := range c.childrenLocked(listChildren()) {
		if !dead(pid) {
			left = append(left, backend.Survivor{PID: pid, Name: Name(pid)})
		}
	}
	return left
}

// killPass kills the whole tree as it is now.
func (c *Children) killPass() {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := listChildren()
	for _, pid := range c.childrenLocked(of) {
		t := procRef{pid: pid, fd: -1}
		t.kill(of, maxDepth)
	}
}
