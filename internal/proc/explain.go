//go:build unix

package proc

import (
	"errors"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
)

// explain says why path could not be started. The kernel reports a number only,
// not whether it is about the user, the directory, the program or its
// interpreter; so it looks again, as the user who was refused.
func (c *Command) explain(path string, err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err
	}
	e := &backend.StartError{Errno: int(errno), Path: path, Detail: errno.Error()}
	asUser(c.Credential, func() { e.Reason = c.reason(path, errno) })
	if e.Reason == backend.BadDirectory {
		e.Path = c.Dir
	}
	return e
}

func (c *Command) reason(path string, errno syscall.Errno) backend.Reason {
	switch {
	case scarce(errno):
		return backend.NoResources
	case errno == syscall.E2BIG:
		return backend.TooLong
	}
	if !enterable(c.Dir) {
		return backend.BadDirectory
	}
	if reason := inspect(c.absolute(path)); reason != "" {
		return reason
	}
	switch errno {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG:
		return backend.InterpreterNotFound
	case syscall.EPERM, syscall.EINVAL:
		if c.Credential != nil {
			return backend.BadUser
		}
	}
	return backend.NotExecutable
}

// Lacking says that what a command needs cannot be had, because of err.
func Lacking(err error) *backend.StartError {
	e := &backend.StartError{Reason: backend.CannotStart, Detail: err.Error()}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Errno = int(errno)
		if scarce(errno) {
			e.Reason = backend.NoResources
		}
	}
	return e
}

// Scarce are the errors of something that has run out.
var Scarce = [...]syscall.Errno{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC}

func scarce(errno syscall.Errno) bool { return slices.Contains(Scarce[:], errno) }

// enterable reports whether dir can be a working directory.
func enterable(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && executable(dir)
}

// inspect says why path is no program, or nothing when it looks like one.
func inspect(path string) backend.Reason {
	var st unix.Stat_t
	switch err := unix.Stat(path, &st); {
	case err == unix.EACCES:
		return backend.NotExecutable
	case err != nil:
		return backend.NotFound
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return backend.IsDirectory
	case st.Mode&unix.S_IFMT != unix.S_IFREG || !executable(path):
		return backend.NotExecutable
	}
	return ""
}
