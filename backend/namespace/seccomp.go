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
	conditional := conditions(namespaces)
	add(seccomp.ActionAllow, seccomp.SyscallGroup{NamesWithCondtions: conditional})
	var otherwise []string
	for _, c := range conditional {
		otherwise = append(otherwise, take(c.Name)...)
	}
	add(seccomp.ActionErrno, seccomp.SyscallGroup{Names: otherwise})
	add(seccomp.ActionAllow, seccomp.SyscallGroup{Names: slices.Sorted(maps.Keys(known))})
	program, err := policy.Assemble()
	if err != nil {
		return nil, err
	}
	program[len(program)-1] = bpf.RetConstant{Val: uint32(seccomp.ActionErrno) | uint32(unix.ENOSYS)}
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, r := range raw {
		binary.Write(&b, binary.NativeEndian, r)
	}
	return b.Bytes(), nil
}

// conditions are the calls that depend on their arguments, and what is allowed of them.
// The kernel looks at the lower half of an argument that is an int, so the upper one must
// not make another number of it.
func conditions(namespaces bool) []seccomp.NameWithConditions {
	const low = 1<<32 - 1
	allow := func(name string, c ...seccomp.Condition) seccomp.NameWithConditions {
		return seccomp.NameWithConditions{Name: name, Conditions: c}
	}
	all := []seccomp.NameWithConditions{
		// A virtual machine's host is not to be reached.
		allow("socket",
			seccomp.Condition{Argument: 0, Operation: seccomp.LessOrEqual, Value: low},
			seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: unix.AF_VSOCK}),
		// Input is not to be made for whoever reads the terminal next. Some libraries
		// extend the sign of numbers that have the upper bit.
		allow("ioctl",
			seccomp.Condition{Argument: 1, Operation: seccomp.LessOrEqual, Value: low},
			seccomp.Condition{Argument: 1, Operation: seccomp.NotEqual, Value: unix.TIOCSTI},
			seccomp.Condition{Argument: 1, Operation: seccomp.NotEqual, Value: unix.TIOCLINUX}),
		allow("ioctl", seccomp.Condition{Argument: 1, Operation: seccomp.GreaterOrEqual, Value: 1<<64 - 1<<31}),
	}
	for _, personality := range []uint64{0, 0x8, 0x20000, 0x20008, low} {
		all = append(all, allow("personality", seccomp.Condition{Argument: 0, Operation: seccomp.Equal, Value: personality}))
	}
	if !namespaces {
		all = append(all, allow("clone", seccomp.Condition{Argument: 0, Operation: seccomp.BitsNotSet, Value: unix.CLONE_NEWUSER |
			unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWNET}))
	}
	return all
}
