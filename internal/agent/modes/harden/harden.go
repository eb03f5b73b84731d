//go:build linux && (amd64 || arm64)

// Package harden makes the agent's processes withstand what they run. Whatever of
// it fails is an error that says what to change: no process goes on without.
package harden

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/proc"
)

// processors is how many the Go code of an agent uses, if it does not choose fewer.
const processors = 3

// Process makes the process one that its commands cannot look into, that
// inherits what they leave behind, and whose settings do not depend on who
// started it. Of its descriptors, no child gets one that it is not given.
func Process() error {
	if err := proc.CheckProcfs(); err != nil {
		return err
	}
	if err := proc.CloseOnExec(); err != nil {
		return err
	}
	runtime.GOMAXPROCS(processors)
	debug.SetGCPercent(50)
	unix.Umask(0o022)
	if err := defaultSignals(); err != nil {
		return err
	}
	if err := NotDumpable(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return failed("prctl(PR_SET_CHILD_SUBREAPER)", err, "use Linux 3.4 or later; of gVisor, a release from 2024 on")
	}
	return setName()
}

// NotDumpable closes the process's /proc, and its memory, to its own user.
func NotDumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return failed("prctl(PR_SET_DUMPABLE)", err, permit)
	}
	return nil
}

// Silence has stderr go where stdin is from, which is /dev/null.
func Silence() error {
	return os.NewSyscallError("dup3", unix.Dup3(0, 2, 0))
}

// setName names the process for whoever lists processes, which protects nothing.
func setName() error {
	name, err := unix.BytePtrFromString("sandbox-agent")
	if err == nil {
		unix.Prctl(unix.PR_SET_NAME, uintptr(ptr(name)), 0, 0, 0)
	}
	return err
}

// Commands takes from the calling thread what commands must never get: the
// thread that starts them must call it, and be locked.
func Commands() error {
	if err := noNewPrivileges(); err != nil {
		return err
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		switch {
		case err == nil:
		case err == unix.EPERM:
			// Without CAP_SETPCAP the set stays as it is. A command cannot gain
			// anything of it, since it has no new privileges.
		case err == unix.EINVAL && !bounded(c):
			// The kernel is older than that capability.
		default:
			return failed("prctl(PR_CAPBSET_DROP)", err, permit)
		}
	}
	return dropInheritable()
}

// noNewPrivileges keeps the calling thread, and what it starts, from getting privileges.
func noNewPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return failed("prctl(PR_SET_NO_NEW_PRIVS)", err, permit)
	}
	return nil
}

// bounded reports whether a capability is in the calling thread's bounding set.
func bounded(capability uintptr) bool {
	in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, capability, 0, 0, 0)
	return err == nil && in == 1
}

// permit is the advice where a kernel that is not too old must have the call.
const permit = "allow it in the seccomp profile of the container or of the service"

// failed says which call has failed, why, and what to change.
func failed(call string, err error, change string) error {
	return fmt.Errorf("%s: %w: %s", call, err, change)
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
