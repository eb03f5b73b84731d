//go:build linux && (amd64 || arm64)

package harden

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Drop takes a capability from every thread of the process, for good.
func Drop(capability uintptr) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // 32 capabilities each
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return failed("capget", err, permit)
	}
	set, bit := &sets[capability/32], uint32(1)<<(capability%32)
	if set.Permitted&bit == 0 {
		return nil
	}
	set.Effective &^= bit
	set.Permitted &^= bit
	set.Inheritable &^= bit
	if _, _, err := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, capability, 0); err != 0 {
		return failed("prctl(PR_CAPBSET_DROP)", err, permit)
	}
	if _, _, err := syscall.AllThreadsSyscall(unix.SYS_CAPSET,
		uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets)), 0); err != 0 {
		return failed("capset", err, permit)
	}
	return nil
}

// Retain takes all capabilities but these from every thread of the process. What it
// starts has them too.
func Retain(capabilities ...uintptr) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	for _, c := range capabilities {
		set, bit := &sets[c/32], uint32(1)<<(c%32)
		set.Effective |= bit
		set.Permitted |= bit
		set.Inheritable |= bit
	}
	if _, _, err := syscall.AllThreadsSyscall(unix.SYS_CAPSET,
		uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets)), 0); err != 0 {
		return failed("capset", err, permit)
	}
	return nil
}

// dropInheritable takes from the calling thread's children what a program that it
// executes would inherit, which includes its ambient capabilities.
func dropInheritable() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return failed("capget", err, permit)
	}
	if sets[0].Inheritable|sets[1].Inheritable == 0 {
		return nil
	}
	sets[0].Inheritable, sets[1].Inheritable = 0, 0
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return failed("capset", err, permit)
	}
	return nil
}
