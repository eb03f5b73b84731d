//go:build linux && (amd64 || arm64)

package harden

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func ptr(b *byte) unsafe.Pointer { return unsafe.Pointer(b) }

// sigaction is the kernel's own (sigaction(2), "C library/kernel differences").
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

const (
	sigDfl = 0
	sigIgn = 1
)

// defaultSignals undoes that whoever started the service had signals ignored, as
// nohup does: commands would inherit it, and a shell cannot undo it. It also undoes
// the runtime's handler for SIGCHLD, which would interrupt every wait for a child.
func defaultSignals() error {
	for s := uintptr(1); s <= 64; s++ {
		var action sigaction
		size := unsafe.Sizeof(action.mask)
		_, _, err := unix.RawSyscall6(unix.SYS_RT_SIGACTION, s, 0, uintptr(unsafe.Pointer(&action)), size, 0, 0)
		if err == 0 && (action.handler == sigIgn || s == uintptr(unix.SIGCHLD)) {
			action.handler = sigDfl
			_, _, err = unix.RawSyscall6(unix.SYS_RT_SIGACTION, s, uintptr(unsafe.Pointer(&action)), 0, size, 0, 0)
		}
		if err != 0 {
			return failed("rt_sigaction", err, permit)
		}
	}
	return nil
}
