//go:build linux && (amd64 || arm64)

package namespace

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// refused are the system calls that container engines refuse by default to who has no
// capabilities, by what they are about. They fail with EPERM.
var refused = map[string][]string{
	"accounting": {"acct", "quotactl", "quotactl_fd", "lookup_dcookie", "syslog", "nfsservctl", "vhangup"},
	"bpf":        {"bpf"},
	"clock":      {"clock_settime", "settimeofday", "stime"},
	"handles":    {"open_by_handle_at", "fanotify_init", "pidfd_getfd", "kcmp", "process_madvise"},
	"io-uring":   {"io_uring_enter", "io_uring_register", "io_uring_setup"},
	"keyrings":   {"add_key", "keyctl", "request_key"},
	"machine":    {"reboot", "kexec_load", "kexec_file_load", "swapon", "swapoff", "ioperm", "iopl", "sethostname", "setdomainname"},
	"memory":     {"get_mempolicy", "mbind", "migrate_pages", "move_pages", "set_mempolicy", "set_mempolicy_home_node", "userfaultfd"},
	"modules":    {"create_module", "delete_module", "finit_module", "init_module", "query_module", "get_kernel_syms"},
	"namespaces": {"setns", "unshare", "chroot", "pivot_root", "mount", "mount_setattr", "move_mount", "open_tree", "open_tree_attr",
		"fsopen", "fsconfig", "fsmount", "fspick", "umount", "umount2", "listmount", "statmount"},
	"obsolete": {"_sysctl", "afs_syscall", "getpmsg", "putpmsg", "security", "sysfs", "tuxcall", "uselib", "ustat", "vserver"},
	"perf":     {"perf_event_open"},
}

// filter returns a seccomp program, as the kernel takes it, for this processor. Calls that
// the library does not know, as those of kernels to come, do not exist (ENOSYS), and neither
// do those of a processor's other modes, as 32-bit ones.
func filter(namespaces bool) ([]byte, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	known := maps.Clone(info.SyscallNames)
	take := func(names ...string) (present []string) {
		for _, name := range names {
			if _, ok := known[name]; ok {
				present = append(present, name)
				delete(known, name)
			}
		}
		return present
	}
	policy := seccomp.Policy{DefaultAction: seccomp.ActionErrno}
	add := func(action seccomp.Action, group seccomp.SyscallGroup) {
		group.Action = action
		policy.Syscalls = append(policy.Syscalls, group)
	}
	for group, names := range refused {
		if group != "namespaces" || !namespaces {
			add(seccomp.ActionErrno, seccomp.SyscallGroup{Names: take(names...)})
		}
	}
	if !namespaces {
		// What it is asked for is in memory, where a filter cannot look: libraries then
		// use clone.
		add(seccomp.ActionErrno|seccomp.Action(unix.ENOSYS), seccomp.SyscallGroup{Names: take("clone3")})
	}
	add(seccomp.ActionAllow, seccomp.SyscallGroup{Names: slices.Sorted(maps.Keys(known))})
	program, err := policy.Assemble()
	if err != nil {
		return nil, err
	}
	missing := bpf.RetConstant{Val: uint32(seccomp.ActionErrno) | uint32(unix.ENOSYS)}
	program[len(program)-1] = missing
	first := []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(info.ID), SkipTrue: 1},
		missing,
		bpf.LoadAbsolute{Off: dataCall, Size: 4},
	}
	for _, c := range conditions(namespaces) {
		first = append(first, c.assemble(info)...)
	}
	raw, err := bpf.Assemble(append(first, program...))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, r := range raw {
		binary.Write(&b, binary.NativeEndian, r)
	}
	return b.Bytes(), nil
}

// Offsets in struct seccomp_data (seccomp(2)); those of arguments are of their lower halves.
const (
	dataCall = 0
	dataArch = 4
	dataArgs = 16
)

// A condition is a system call that depends on an argument, of which the kernel looks at the
// lower half, or at bits of that: whatever the upper one is. The library looks at both.
type condition struct {
	name   string
	arg    uint32
	test   bpf.JumpTest
	values []uint32
	refuse bool // the call when any of the values passes the test; otherwise all others
}

// conditions are what is refused and allowed by argument.
func conditions(namespaces bool) []condition {
	all := []condition{
		{"socket", 0, bpf.JumpEqual, []uint32{unix.AF_VSOCK}, true},                           // a virtual machine's host
		{"ioctl", 1, bpf.JumpEqual, []uint32{unix.TIOCSTI, unix.TIOCLINUX}, true},             // input for whoever reads next
		{"personality", 0, bpf.JumpEqual, []uint32{0, 8, 0x20000, 0x20008, 1<<32 - 1}, false}, // what engines allow
	}
	if !namespaces {
		all = append(all, condition{"clone", 0, bpf.JumpBitsSet, []uint32{unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWNET}, true})
	}
	return all
}

// assemble returns instructions that decide about the call, and leave all others as they are.
func (c condition) assemble(info *arch.Info) []bpf.Instruction {
	refuse := bpf.RetConstant{Val: uint32(seccomp.ActionErrno) | uint32(unix.EPERM)}
	allow := bpf.RetConstant{Val: uint32(seccomp.ActionAllow)}
	body := []bpf.Instruction{bpf.LoadAbsolute{Off: dataArgs + 8*c.arg, Size: 4}}
	for n, v := range c.values {
		body = append(body, bpf.JumpIf{Cond: c.test, Val: v, SkipTrue: uint8(len(c.values) - n)})
	}
	if c.refuse {
		body = append(body, allow, refuse)
	} else {
		body = append(body, refuse, allow)
	}
	number := uint32(info.SyscallNames[c.name])
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: number, SkipTrue: uint8(len(body))}}, body...)
}
