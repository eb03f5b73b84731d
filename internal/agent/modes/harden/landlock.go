//go:build linux && (amd64 || arm64)

package harden

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// landlockABI is the first in which files can be moved between directories that are open:
// Linux 5.19.
const landlockABI = 2

// Landlock reports whether the kernel has a Landlock that Writable can use.
func Landlock() bool { return abi() >= landlockABI }

func abi() int {
	n, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0 // the kernel has none, or was started without
	}
	return int(n)
}

// What can be done to a file by writing, and what besides below a directory. There are no
// devices among what can be made.
const (
	writeFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	writeTree = writeFile | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	devices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

// Writable has the kernel refuse to the calling thread, and to what it starts from then on,
// to write anywhere but below trees, or to what there is already below files; and to signal a
// process, or connect to a socket without a file, of anybody else. The thread must have no new
// privileges.
func Writable(trees, files []string) error {
	version := abi()
	truncate := uint64(0)
	if version >= 3 {
		truncate = unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	rules := unix.LandlockRulesetAttr{Handled_access_fs: writeTree | devices | truncate}
	if version >= scopeABI {
		rules.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	set, err := ruleset(&rules)
	if err != nil {
		return err
	}
	defer unix.Close(set)
	for access, paths := range map[uint64][]string{writeTree | truncate: trees, writeFile | truncate: files} {
		for _, path := range paths {
			if err := allow(set, path, access, writeFile|truncate); err != nil {
				return err
			}
		}
	}
	return restrict(set)
}

// scopeABI is the first that knows whom a process may signal: Linux 6.12.
const scopeABI = 6

// CanScope reports whether the kernel has what Scoped uses.
func CanScope() bool { return abi() >= scopeABI }

// Scoped has the kernel refuse to the calling thread, and to what it starts from then on, to
// signal or trace anybody else, and what [OwnLimits] refuses. They get no new privileges.
func Scoped() error {
	if err := noNewPrivileges(); err != nil {
		return err
	}
	if err := OwnLimits(); err != nil {
		return err
	}
	set, err := ruleset(&unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_SIGNAL})
	if err != nil {
		return err
	}
	defer unix.Close(set)
	return restrict(set)
}

func ruleset(rules *unix.LandlockRulesetAttr) (int, error) {
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(rules)), unsafe.Sizeof(*rules), 0)
	if errno != 0 {
		return -1, failed("landlock_create_ruleset", errno, permit)
	}
	return int(set), nil
}

func restrict(set int) error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(set), 0, 0); errno != 0 {
		return failed("landlock_restrict_self", errno, permit)
	}
	return nil
}

// allow adds a rule. Of what is no directory, only the rights of files can be given.
func allow(set int, path string, access, file uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= file
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return failed("landlock_add_rule "+path, errno, permit)
	}
	return nil
}
