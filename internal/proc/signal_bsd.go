//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package proc

import (
	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
)

// numbers are the signals that have another number here than on Linux.
func numbers() map[backend.Signal]unix.Signal {
	return map[backend.Signal]unix.Signal{
		7: unix.SIGBUS, 10: unix.SIGUSR1, 12: unix.SIGUSR2, 17: unix.SIGCHLD, 18: unix.SIGCONT,
		19: unix.SIGSTOP, 20: unix.SIGTSTP, 23: unix.SIGURG, 29: unix.SIGIO, 31: unix.SIGSYS,
	}
}

// nativeSignal returns the signal that Linux numbers s.
func nativeSignal(s backend.Signal) (unix.Signal, bool) {
	if n, ok := numbers()[s]; ok {
		return n, true
	}
	// What is left has the same number on both, or does not exist here.
	const pwr, stkflt, rtmin = 30, 16, 32
	return unix.Signal(s), s.Valid() && s != pwr && s != stkflt && s < rtmin
}

// linuxSignal returns how Linux numbers s.
func linuxSignal(s unix.Signal) backend.Signal {
	for linux, native := range numbers() {
		if native == s {
			return linux
		}
	}
	return backend.Signal(s)
}
