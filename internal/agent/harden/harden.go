//go:build linux && (amd64 || arm64)

// Package harden makes the agent's processes withstand what they run.
package harden

import (
	"math"
	"runtime"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"
)

// processors is how many the Go code of an agent uses, if it does not choose fewer.
const processors = 3

// Process makes the process one that its commands cannot look into, that
// inherits what they leave behind, and whose settings do not depend on who
// started it.
func Process() error {
	// Whoever started the service may have left it descriptors. An error is of a
	// kernel before 5.11, where they are not worth failing.
	unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	runtime.GOMAXPROCS(processors)
	debug.SetGCPercent(50)
	unix.Umask(0o022)
	defaultSignals()
	for _, option := range []struct{ name, value int }{
		{unix.PR_SET_DUMPABLE, 0},
		{unix.PR_SET_CHILD_SUBREAPER, 1},
	} {
		if err := unix.Prctl(option.name, uintptr(option.value), 0, 0, 0); err != nil {
			return err
		}
	}
	name, err := unix.BytePtrFromString("sandbox-agent")
	if err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_NAME, uintptr(ptr(name)), 0, 0, 0)
}

// Commands takes from the calling thread what commands must never get: the
// thread that starts them must call it, and be locked.
func Commands() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		// EINVAL: the kernel is older than that capability. EPERM: an ordinary
		// user, who has none to give.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL && err != unix.EPERM {
			return err
		}
	}
	return nil
}

// Threads makes the threads that the process will need: one for each processor,
// and some for more system calls that block at the same time than there are
// threads in such calls already. A goroutine that is locked to a thread and waits
// keeps it from everybody else.
func Threads(more int) {
	n := processors + more
	var all, done sync.WaitGroup
	all.Add(n)
	for range n {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			all.Done()
			all.Wait()
		})
	}
	done.Wait()
}
