//go:build linux

package escapetest

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// callAttacks are about system calls that are the machine's affair, with arguments that do
// no harm where they are not refused.
func callAttacks() []Attack {
	var empty [256]byte
	at := uintptr(unsafe.Pointer(&empty[0]))
	name, _ := unix.BytePtrFromString("escapetest")
	text := uintptr(unsafe.Pointer(name))
	const user, bad = unix.CLONE_NEWUSER, ^uintptr(0)
	groups := []struct {
		name, rule string
		calls      []call
	}{
		{"kernel-modules-are-refused", "A command cannot load or remove a kernel module.", []call{
			{"init_module", unix.SYS_INIT_MODULE, [4]uintptr{at, 0, text}}, {"finit_module", unix.SYS_FINIT_MODULE, [4]uintptr{bad, text, 0}}, {"delete_module", unix.SYS_DELETE_MODULE, [4]uintptr{text, unix.O_NONBLOCK}},
		}},
		{"the-clock-is-refused", "A command cannot set the machine's clock.", []call{
			{"clock_settime", unix.SYS_CLOCK_SETTIME, [4]uintptr{unix.CLOCK_REALTIME, bad}}, {"settimeofday", unix.SYS_SETTIMEOFDAY, [4]uintptr{bad, 0}},
		}},
		{"the-machines-state-is-refused", "A command cannot restart the machine, change its swap, replace its kernel or have its accounts.", []call{
			{"reboot", unix.SYS_REBOOT, [4]uintptr{0, 0, 0, 0}}, {"kexec_load", unix.SYS_KEXEC_LOAD, [4]uintptr{0, bad, 0, bad}}, {"swapon", unix.SYS_SWAPON, [4]uintptr{text, bad}}, {"swapoff", unix.SYS_SWAPOFF, [4]uintptr{text}},
			{"acct", unix.SYS_ACCT, [4]uintptr{text}}, {"sethostname", unix.SYS_SETHOSTNAME, [4]uintptr{bad, 1}}, {"setdomainname", unix.SYS_SETDOMAINNAME, [4]uintptr{bad, 1}}, {"syslog", unix.SYS_SYSLOG, [4]uintptr{3, at, 1}},
			{"vhangup", unix.SYS_VHANGUP, [4]uintptr{}},
		}},
		{"io-uring-is-refused", "A command cannot use io_uring.", []call{{"io_uring_setup", unix.SYS_IO_URING_SETUP, [4]uintptr{1, at}}}},
		{"userfaultfd-is-refused", "A command cannot handle page faults of the kernel.", []call{{"userfaultfd", unix.SYS_USERFAULTFD, [4]uintptr{0}}}},
		{"bpf-is-refused", "A command cannot load programs into the kernel.", []call{{"bpf", unix.SYS_BPF, [4]uintptr{0, at, 64}}}},
		{"perf-is-refused", "A command cannot measure the kernel.", []call{{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, [4]uintptr{at, 0, bad, bad}}}},
		{"keyrings-are-refused", "A command cannot use the kernel's keys.", []call{
			{"add_key", unix.SYS_ADD_KEY, [4]uintptr{text, text, at, 1}}, {"request_key", unix.SYS_REQUEST_KEY, [4]uintptr{text, text, 0, 0}}, {"keyctl", unix.SYS_KEYCTL, [4]uintptr{0, bad - 3, 0}},
		}},
		{"namespaces-are-refused", "A command cannot make or enter namespaces.", []call{
			{"unshare", unix.SYS_UNSHARE, [4]uintptr{user}}, {"setns", unix.SYS_SETNS, [4]uintptr{bad, 0}}, {"clone", unix.SYS_CLONE, [4]uintptr{user | unix.CLONE_FS, 0}},
			{"clone3", unix.SYS_CLONE3, [4]uintptr{at, 0}}, {"fsopen", unix.SYS_FSOPEN, [4]uintptr{text, 0}}, {"open_tree", unix.SYS_OPEN_TREE, [4]uintptr{bad, text, 0}},
			{"move_mount", unix.SYS_MOVE_MOUNT, [4]uintptr{bad, text, bad, text}}, {"mount_setattr", unix.SYS_MOUNT_SETATTR, [4]uintptr{bad, text, 0, at}},
		}},
		{"handles-are-refused", "A command cannot open a file without its name, nor another process's descriptor.", []call{
			{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, [4]uintptr{bad, at, 0}}, {"pidfd_getfd", unix.SYS_PIDFD_GETFD, [4]uintptr{bad, 0, 0}}, {"kcmp", unix.SYS_KCMP, [4]uintptr{1, 1, 0, 0}},
		}},
	}
	var all []Attack
	for _, g := range groups {
		all = append(all, Attack{Name: g.name, Rule: g.rule, promise: files, try: func(*scene) error {
			for _, c := range g.calls {
				if err := c.refused(); err != nil {
					return err
				}
			}
			return nil
		}})
	}
	return all
}

// A call is a system call with arguments.
type call struct {
	name   string
	number uintptr
	args   [4]uintptr
}

// refused returns an error when the kernel has done anything but refuse the call.
func (c call) refused() error {
	r, _, errno := unix.RawSyscall6(c.number, c.args[0], c.args[1], c.args[2], c.args[3], 0, 0)
	switch errno {
	case unix.EPERM, unix.EACCES, unix.ENOSYS:
		return nil
	case 0:
		return fmt.Errorf("%s returned %d", c.name, r)
	}
	return fmt.Errorf("%s was not refused: %w", c.name, errno)
}
