//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start calls start, which starts a process with sys: that is in the group from its
// beginning. To move it there later would wait for every processor of the machine, some
// 10 ms.
func (p Place) Start(sys *syscall.SysProcAttr, start func() error) error {
	return (*Entrance)(nil).Start(p, sys, start)
}

// An Entrance is for whoever starts one process after the other, mostly in the same group:
// it keeps the files open that a thread moves by, since opening them takes twice as long as
// moving. The zero value is ready to use, and nil keeps nothing. It is for one goroutine.
type Entrance struct {
	place   Place // that in and out lead to
	in, out []int // the files of the groups, and of those above the service's
}

// Start is [Place.Start].
func (e *Entrance) Start(p Place, sys *syscall.SysProcAttr, start func() error) error {
	switch {
	case len(p.Dirs) == 0:
		return start()
	case p.Version == 2:
		return p.startInto(sys, start)
	case e == nil:
		e = &Entrance{}
		defer e.Close()
	}
	// A child is where the thread is that forks it, and a thread moves itself at no cost.
	runtime.LockOSThread()
	err := e.enter(p)
	if err == nil {
		err = start()
	}
	if left := moveThread(e.out); left == nil { // otherwise the thread ends with its goroutine
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

// enter moves the calling thread to a place of the first version.
func (e *Entrance) enter(p Place) error {
	if slices.Equal(e.place.Dirs, p.Dirs) && moveThread(e.in) == nil {
		return nil
	}
	// The files are of another place, or of groups of the same names that were removed. The
	// thread may be in some of those already.
	if err := moveThread(e.out); err != nil {
		return err
	}
	e.Close()
	for _, dir := range p.Dirs {
		// Each group is in one of the service's, which is in the one that the service is in.
		for dir, files := range map[string]*[]int{dir: &e.in, filepath.Dir(filepath.Dir(dir)): &e.out} {
			path := filepath.Join(dir, "tasks")
			fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				e.Close() // a part of the files must not pass for all of them
				return &os.PathError{Op: "open", Path: path, Err: err}
			}
			*files = append(*files, fd)
		}
	}
	e.place = p
	return moveThread(e.in)
}

// moveThread moves the calling thread to groups of the first version, by their files.
func moveThread(tasks []int) error {
	for _, fd := range tasks {
		if _, err := unix.Write(fd, []byte("0")); err != nil {
			return os.NewSyscallError("write tasks", err)
		}
	}
	return nil
}

// Close closes the files.
func (e *Entrance) Close() {
	for _, fd := range slices.Concat(e.in, e.out) {
		unix.Close(fd)
	}
	*e = Entrance{}
}

// mayStartInto reports whether processes can be started in groups of the second version,
// by clone3(2) of Linux 5.7. Container engines may have it not exist.
func mayStartInto() bool {
	_, _, errno := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0)
	return errno == unix.EINVAL
}
