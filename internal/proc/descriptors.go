//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package proc

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CloseOnExec has every descriptor of the process but the first three closed when a
// program is executed. It sets them one by one: close_range(2), which would do it at
// once, is missing in some kernels, runtimes and seccomp profiles.
func CloseOnExec() error {
	fds, err := inheritable()
	if err != nil {
		return err
	}
	for _, fd := range fds {
		// One that is not there any more is the listing's own.
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil && err != unix.EBADF {
			return os.NewSyscallError("fcntl(F_SETFD)", err)
		}
	}
	return nil
}

// maxNumbers is how many numbers are tried where descriptors cannot be listed.
const maxNumbers = 1 << 20

// inheritable returns the descriptors, above the first three, that a program which
// is executed would have too.
func inheritable() ([]int, error) {
	probe, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer probe.Close()
	all, err := listed(int(probe.Fd()))
	if err != nil {
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			return nil, os.NewSyscallError("getrlimit", err)
		}
		if uint64(limit.Max) > maxNumbers {
			return nil, fmt.Errorf("descriptors that must be closed cannot be listed: %w: mount /proc, or lower the hard limit of open files to %d", err, maxNumbers)
		}
		for fd := range int(limit.Max) {
			all = append(all, fd)
		}
	}
	var fds []int
	for _, fd := range all {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && fd > 2 && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

// listed returns the process's descriptors. One that is known to be open must be
// among them: some systems have a directory that shows the first three only.
func listed(known int) ([]int, error) {
	dir := "/dev/fd"
	if _, err := os.Stat(ownDescriptors); err == nil {
		dir = ownDescriptors
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := false
	var fds []int
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		fds = append(fds, fd)
		found = found || fd == known
	}
	if !found {
		return nil, fmt.Errorf("%s does not list descriptor %d", dir, known)
	}
	return fds, nil
}

// ownDescriptors lists the process's descriptors on Linux.
const ownDescriptors = "/proc/self/fd"
