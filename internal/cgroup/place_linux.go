//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start calls start, which starts a process with sys: that is in the group from its
// beginning. To move it there later would wait for every processor of the machine, some
// 10 ms.
func (p Place) Start(sys *syscall.SysProcAttr, start func() error) error {
	switch {
	case len(p.Dirs) == 0:
		return start()
	case p.Version == 2:
		return p.startInto(sys, start)
	}
	// A child is where the thread is that forks it, and a thread moves itself at no cost.
	runtime.LockOSThread()
	err := p.each(func(dir string) error { return moveThread(dir) })
	if err == nil {
		err = start()
	}
	// Each group is in one of the service's, which is in the one that the service is in.
	left := p.each(func(dir string) error { return moveThread(filepath.Dir(filepath.Dir(dir))) })
	if left == nil { // otherwise the thread ends with its goroutine
		runtime.UnlockOSThread()
	}
	return err
}

func (p Place) startInto(sys *syscall.SysProcAttr, start func() error) error {
	fd, err := unix.Open(p.Dirs[0], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: p.Dirs[0], Err: err}
	}
	defer unix.Close(fd)
	sys.UseCgroupFD, sys.CgroupFD = true, fd
	return start()
}

func (p Place) each(f func(dir string) error) error {
	for _, dir := range p.Dirs {
		if err := f(dir); err != nil {
			return err
		}
	}
	return nil
}

// moveThread moves the calling thread to a group of the first version.
func moveThread(dir string) error {
	path := filepath.Join(dir, "tasks")
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("0")); err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// mayStartInto reports whether processes can be started in groups of the second version,
// by clone3(2) of Linux 5.7. Container engines may have it not exist.
func mayStartInto() bool {
	_, _, errno := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0)
	return errno == unix.EINVAL
}
