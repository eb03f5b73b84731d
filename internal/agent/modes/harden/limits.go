//go:build linux && (amd64 || arm64)

package harden

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A limitsABI is how prlimit64 is called: by the kernel's own programs, and by 32-bit ones.
type limitsABI struct{ arch, number uint32 }

var limitsABIs = map[string][2]limitsABI{
	"amd64": {{unix.AUDIT_ARCH_X86_64, unix.SYS_PRLIMIT64}, {unix.AUDIT_ARCH_I386, 340}},
	"arm64": {{unix.AUDIT_ARCH_AARCH64, unix.SYS_PRLIMIT64}, {unix.AUDIT_ARCH_ARM, 369}},
}[runtime.GOARCH]

// OwnLimits has the kernel refuse to the calling thread, and to what it starts from then on,
// to set limits by a process's number, also its own: a limit of processor time would end
// another process. A process sets its own limits with number 0, as setrlimit does. The kernel
// looks at no other call, so those cost what they did (Linux 5.11). The thread must have no new
// privileges.
func OwnLimits() error {
	const (
		number, arch            = 0, 4 // offsets in struct seccomp_data
		pid, limit, limitUpper  = 16, 32, 36
		load, equal, and, leave = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, unix.BPF_RET | unix.BPF_K
		x32                     = 0x40000000 // a bit of the number, of a third ABI
	)
	own, other := limitsABIs[0], limitsABIs[1]
	program := []unix.SockFilter{
		{Code: load, K: arch},
		{Code: equal, K: own.arch, Jf: 3},
		{Code: load, K: number},
		{Code: and, K: ^uint32(x32)},
		{Code: equal, K: own.number, Jt: 3, Jf: 9},
		{Code: equal, K: other.arch, Jf: 8},
		{Code: load, K: number},
		{Code: equal, K: other.number, Jf: 6},
		{Code: load, K: pid},
		{Code: equal, K: 0, Jt: 4},
		{Code: load, K: limit},
		{Code: equal, K: 0, Jf: 3},
		{Code: load, K: limitUpper},
		{Code: equal, K: 0, Jf: 1},
		{Code: leave, K: unix.SECCOMP_RET_ALLOW},
		{Code: leave, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		return failed("prctl(PR_SET_SECCOMP)", err, permit)
	}
	return nil
}
