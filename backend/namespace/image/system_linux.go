package image

import (
	"os"

	"golang.org/x/sys/unix"
)

// errLocked: somebody else holds a lock.
const errLocked = unix.EWOULDBLOCK

// syncAll has the disk hold all that the file system of a directory has.
func syncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd())))
}

// tryLock opens and locks a file, or fails where somebody else holds it.
func tryLock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: name, Err: err}
	}
	return f, nil
}
