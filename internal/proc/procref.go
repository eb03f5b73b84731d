//go:build linux && (amd64 || arm64)

package proc

import "golang.org/x/sys/unix"

// maxDepth bounds the descriptors that one pass over a tree holds. What is
// deeper comes up as what is above it dies.
const maxDepth = 64

// A procRef is a process that is known to be of the tree. Its number cannot be
// another's: it is an unreaped child of the caller, or fd refers to it.
type procRef struct {
	pid int
	fd  int // -1 for a child
}

func (t procRef) signal(s unix.Signal) error {
	if t.fd < 0 {
		return unix.Kill(t.pid, s)
	}
	return unix.PidfdSendSignal(t.fd, s, nil, 0)
}

// kill ends t and its descendants. It stops t first, so that it cannot fork
// while they are looked at.
func (t procRef) kill(of childLister, depth int) {
	t.signal(unix.SIGSTOP)
	t.each(of, depth, func(child procRef) { child.kill(of, depth-1) })
	t.signal(unix.SIGKILL)
}

// hangUp sends SIGHUP to what of t and its descendants is of a session, and has it
// go on if it was stopped.
func (t procRef) hangUp(session int, of childLister, depth int) {
	t.each(of, depth, func(child procRef) { child.hangUp(session, of, depth-1) })
	if statOf(t.pid).session == session {
		t.signal(unix.SIGHUP)
		t.signal(unix.SIGCONT)
	}
}

// each calls f with every child of t, unless depth is 0.
func (t procRef) each(of childLister, depth int, f func(procRef)) {
	if depth == 0 {
		return
	}
	for _, pid := range of(t.pid) {
		if child, ok := t.child(pid); ok {
			f(child)
			unix.Close(child.fd)
		}
	}
}

// child returns the procRef for pid, if that is a child of t. What a list said
// may be outdated, and the number another's by now: so its parent is read once
// the process is held, and t must not have been reaped then.
func (t procRef) child(pid int) (procRef, bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return procRef{}, false
	}
	if parentOf(pid) == t.pid && t.signal(0) == nil {
		return procRef{pid, fd}, true
	}
	unix.Close(fd)
	return procRef{}, false
}
