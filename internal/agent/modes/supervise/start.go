//go:build linux && (amd64 || arm64)

package supervise

import (
	"syscall"
)

// Files are descriptors of whoever starts a supervisor.
type Files struct {
	Null   int // /dev/null
	Socket int // becomes Socket
	Locks  int // becomes Locks
}

// Start starts this program in the mode that its name says, which has the descriptors of a
// supervisor, in a session of its own. Contained is as in Main, flags are those of clone(2).
func Start(mode string, f Files, contained bool, flags uintptr) (pid int, err error) {
	argv := []string{"sandbox-agent", mode}
	if contained {
		argv = append(argv, "contained")
	}
	files := []uintptr{uintptr(f.Null), uintptr(f.Null), uintptr(f.Socket), Socket: uintptr(f.Socket), Locks: uintptr(f.Locks)}
	return syscall.ForkExec("/proc/self/exe", argv, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{},
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true, Cloneflags: flags},
	})
}
