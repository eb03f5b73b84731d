package proc

import (
	"bytes"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
)

// Of sys/wait.h and sys/proc.h.
const (
	pPID        = 1
	wExited     = 0x4
	wNoWait     = 0x20
	cldExited   = 1
	stateZombie = 5
)

// A childInfo is a siginfo_t as waitid(2) fills it.
type childInfo struct {
	signo, errno, code int32
	pid                int32
	uid                uint32
	status             int32
	_                  [128]byte
}

// waitExit waits until a child has ended, and leaves it a zombie. What it cost is
// told only when it is reaped.
func waitExit(pid int) (backend.Exit, error) {
	for {
		var info childInfo
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), wExited|wNoWait, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			return backend.Exit{}, os.NewSyscallError("waitid", errno)
		}
		if info.code == cldExited {
			return backend.Exit{Code: int(info.status & 0xff)}, nil
		}
		return backend.Exit{Signal: linuxSignal(unix.Signal(info.status))}, nil
	}
}

// groupMembers returns the processes of a group that have not ended.
func groupMembers(group int) []backend.Survivor {
	var members []backend.Survivor
	list, _ := unix.SysctlKinfoProcSlice("kern.proc.pgrp", group)
	for i := range list {
		if p := &list[i].Proc; p.P_stat != stateZombie {
			name, _, _ := bytes.Cut(p.P_comm[:], []byte{0})
			members = append(members, backend.Survivor{PID: int(p.P_pid), Name: string(name)})
		}
	}
	return members
}
