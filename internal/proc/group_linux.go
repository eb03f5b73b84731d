package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
)

// waitExit waits until a child has ended, and leaves it a zombie.
func waitExit(pid int) (backend.Exit, error) {
	var info childInfo
	var usage unix.Rusage
	for {
		err := unix.Waitid(unix.P_PID, pid, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOWAIT, &usage)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return backend.Exit{}, os.NewSyscallError("waitid", err)
		}
		return ExitOf(info.waitStatus(), &usage), nil
	}
}

// A childInfo is a siginfo_t as waitid(2) fills it.
type childInfo struct {
	signo, errno, code int32
	_                  [unsafe.Sizeof(uintptr(0)) - 4]byte // a union follows, which holds pointers
	pid                int32
	uid                uint32
	status             int32
	_                  [128]byte
}

// Codes of siginfo_t for a child.
const (
	cldExited = 1
	cldDumped = 3
)

// waitStatus puts the status as wait4(2) has it.
func (i *childInfo) waitStatus() unix.WaitStatus {
	switch i.code {
	case cldExited:
		return unix.WaitStatus(i.status&0xff) << 8
	case cldDumped:
		return unix.WaitStatus(i.status | 0x80)
	}
	return unix.WaitStatus(i.status)
}

// groupMembers returns the processes of a group that have not ended.
func groupMembers(group int) []backend.Survivor {
	var members []backend.Survivor
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		b, _ := os.ReadFile("/proc/" + name + "/stat")
		open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
		if open < 0 {
			continue
		}
		f := strings.Fields(string(b[end+1:])) // state, parent, group, …
		if len(f) > 2 && f[2] == strconv.Itoa(group) && !(strings.Contains("ZX", f[0]) && dead(pid)) {
			members = append(members, backend.Survivor{PID: pid, Name: string(b[open+1 : end])})
		}
	}
	return members
}
