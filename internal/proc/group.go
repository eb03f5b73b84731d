//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package proc

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
)

// A Group is a command that the calling process itself has started, as a process
// group. It is known to be killed when the group is empty; what leaves the group
// escapes.
//
// The command stays a zombie while anything else is in its group, so that the
// group's number cannot become another's.
type Group struct {
	*Outcome // empty when nothing is left in the group
	pid      int
	look     chan struct{} // asks for a look whether something is

	mu     sync.Mutex // held while the group is signalled or the command reaped
	reaped bool       // the group's number may be another's
	empty  sync.Once  // calls SetEmpty
}

// StartGroup starts a command. Of spec it uses the streams.
func StartGroup(c *Command, spec *backend.Spec) (*Group, error) {
	var pipes filePipes
	var err error
	if spec.Terminal != nil {
		c.Terminal = true
		err = pipes.openTerminal(c.Credential, *spec.Terminal)
	} else {
		asUser(c.Credential, func() { err = pipes.open(spec.Stdin != nil) })
	}
	defer closeAll(pipes.theirs[:])
	if err != nil {
		closeAll(pipes.ours)
		return nil, Lacking(err)
	}
	files, err := onlyFiles(pipes.theirs)
	if err != nil {
		closeAll(pipes.ours)
		return nil, Lacking(err)
	}
	var pid int
	withUmask(func() { pid, err = c.Start(files) })
	if err != nil {
		closeAll(pipes.ours)
		return nil, err
	}
	streams, err := NewStreams(pipes.ours, spec)
	if err != nil {
		unix.Kill(-pid, unix.SIGKILL)
		unix.Wait4(pid, nil, 0, nil)
		return nil, err
	}
	g := &Group{Outcome: NewOutcome(), pid: pid, look: make(chan struct{})}
	g.Follow(streams)
	go g.reap()
	return g, nil
}

// filePipes are what Pipes are, as files of the Go runtime.
type filePipes struct {
	ours   []*os.File
	theirs [3]*os.File
}

func (p *filePipes) open(input bool) (err error) {
	var ours *os.File
	if input {
		p.theirs[0], ours, err = os.Pipe()
		p.ours = append(p.ours, ours)
	} else {
		p.theirs[0], err = os.Open(os.DevNull)
	}
	for i := 1; i < len(p.theirs) && err == nil; i++ {
		ours, p.theirs[i], err = os.Pipe()
		p.ours = append(p.ours, ours)
	}
	return err
}

func (p *filePipes) openTerminal(cred *syscall.Credential, size backend.TerminalSize) error {
	ours, theirs, err := openTerminal(cred, size)
	if err != nil {
		return err
	}
	p.ours = []*os.File{ours}
	p.theirs = [3]*os.File{theirs, theirs, theirs}
	return nil
}

// onlyFiles returns the descriptors of a command that is to have files and no
// others. Those that the calling process was itself started with would go to every
// command; a number that is none is closed in the command.
func onlyFiles(files [3]*os.File) ([]uintptr, error) {
	var fds []uintptr
	for _, f := range files {
		fds = append(fds, f.Fd()) // puts it into blocking mode
	}
	others, err := inheritable()
	if err != nil {
		return nil, err
	}
	for _, fd := range others {
		for len(fds) <= fd {
			fds = append(fds, ^uintptr(0))
		}
	}
	return fds, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// How often it is looked whether a group is empty that its command has left: soon
// at first, less often later.
const (
	firstLook = 5 * time.Millisecond
	lastLook  = 500 * time.Millisecond
)

// reap waits for the command, and for its group to be empty.
func (g *Group) reap() {
	exit, err := waitExit(g.pid)
	if g.streams.terminal != nil { // it is hung up on what is left
		g.signal(unix.SIGHUP)
		g.signal(unix.SIGCONT)
	}
	g.End(exit, err)
	for wait := firstLook; !g.reapIfAlone(); wait = min(2*wait, lastLook) {
		select {
		case <-time.After(wait):
		case <-g.look:
			wait = firstLook
		}
	}
	g.empty.Do(g.SetEmpty)
}

// reapIfAlone reaps the command when nothing else is in its group.
func (g *Group) reapIfAlone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(groupMembers(g.pid)) > 0 {
		return false
	}
	unix.Wait4(g.pid, nil, 0, nil)
	// What was forked while the list was read keeps the number.
	g.reaped = len(groupMembers(g.pid)) == 0
	return g.reaped
}

// Signal implements [backend.Process].
func (g *Group) Signal(ctx context.Context, s backend.Signal) error {
	native, ok := nativeSignal(s)
	if !ok {
		return fmt.Errorf("%v is no signal here", s)
	}
	select {
	case <-g.Ended():
		return os.ErrProcessDone
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	g.signal(native)
	return nil
}

// signal signals the group while its number is its own.
func (g *Group) signal(s unix.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		unix.Kill(-g.pid, s)
	}
}

// groupKillTime is how long a kill goes on.
const groupKillTime = 10 * time.Second

// tracedTime is how long the command may be seen to have ended, but not be told.
// Longer than that, somebody traces it and has not seen its end.
const tracedTime = 200 * time.Millisecond

// dead reports whether all of the group have ended.
func (g *Group) dead() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(groupMembers(g.pid)) == 0
}

// Kill implements [backend.Process].
func (g *Group) Kill() error {
	for begin := time.Now(); time.Since(begin) < groupKillTime; {
		if time.Since(begin) > tracedTime && g.dead() {
			g.End(backend.Exit{Signal: backend.SIGKILL}, nil)
			g.empty.Do(g.SetEmpty)
		}
		g.signal(unix.SIGKILL)
		select {
		case g.look <- struct{}{}:
		case <-time.After(firstLook):
		case <-g.Empty():
			<-g.OutputOver()
			return nil
		}
		select {
		case <-time.After(firstLook):
		case <-g.Empty():
		}
	}
	g.mu.Lock()
	err := &backend.SurvivorsError{Survivors: groupMembers(g.pid)}
	g.mu.Unlock()
	g.Finish()
	g.End(backend.Exit{}, err)
	<-g.OutputOver()
	return err
}
