//go:build dragonfly || freebsd || netbsd || openbsd

package proc

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
)

// waitExit waits until a child has ended, and reaps it: these systems have no
// common way to leave it a zombie. The group's number stays its own while anything
// is in the group.
func waitExit(pid int) (backend.Exit, error) {
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		_, err := unix.Wait4(pid, &status, 0, &usage)
		switch {
		case err == nil:
			return ExitOf(status, &usage), nil
		case err != unix.EINTR:
			return backend.Exit{}, os.NewSyscallError("wait4", err)
		}
	}
}

// groupMembers returns whether anything is in the group, as one process.
func groupMembers(group int) []backend.Survivor {
	if unix.Kill(-group, 0) == unix.ESRCH {
		return nil
	}
	return []backend.Survivor{{PID: group, Name: "process group"}}
}
