package files

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/sandbox-go/sandbox/backend"
)

// kinds are the causes that callers are promised, by the names that they have on
// the way from the process.
var kinds = []struct {
	name string
	err  error
}{
	{"not-exist", fs.ErrNotExist},
	{"exist", fs.ErrExist},
	{"permission", fs.ErrPermission},
	{"invalid", fs.ErrInvalid},
	{"is-directory", backend.ErrIsDirectory},
	{"not-directory", backend.ErrNotDirectory},
	{"not-empty", backend.ErrNotEmpty},
	{"special-file", backend.ErrSpecialFile},
	{"outside", backend.ErrOutside},
	{"no-space", backend.ErrNoSpace},
	{"loop", backend.ErrLinkLoop},
	{"archive", backend.ErrArchive},
	{"unsupported", errors.ErrUnsupported},
}

// pathError returns the error of r as backend.Filer promises it.
func pathError(r *backend.FileRequest, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	name := r.Name
	if other := (aboutError{}); errors.As(err, &other) {
		name = other.name
	}
	return &fs.PathError{Op: string(r.Op), Path: name, Err: cause(err)}
}

// An aboutError is about another name than its request's.
type aboutError struct {
	error
	name string
}

func (e aboutError) Unwrap() error { return e.error }

// about returns err, unless it is nil, as one that is about name.
func about(name string, err error) error {
	if err == nil {
		return nil
	}
	return aboutError{err, name}
}

// A told is a promised cause that says more of itself.
type told struct {
	error // what it says
	kind  error
}

func (t told) Is(target error) bool { return target == t.kind }

// invalid returns fs.ErrInvalid in words that say what to change.
func invalid(text string) error { return told{errors.New(text), fs.ErrInvalid} }

// transient are the errors of the system that another try may not have. Every other
// one that has no kind of its own says what the name cannot be used for.
var transient = []syscall.Errno{
	syscall.EAGAIN, syscall.EINTR, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ESTALE, syscall.ETIMEDOUT,
}

// cause returns the promised cause that err is, or what is in it of others.
func cause(err error) error {
	var already told
	if errors.As(err, &already) {
		return already
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		switch errno { // ENOTEMPTY matches fs.ErrExist too
		case syscall.EISDIR:
			return backend.ErrIsDirectory
		case syscall.ENOTDIR:
			return backend.ErrNotDirectory
		case syscall.ENOTEMPTY:
			return backend.ErrNotEmpty
		case syscall.EINVAL:
			return fs.ErrInvalid
		case syscall.EBUSY:
			return invalid("is in use by the system, as a mount point is")
		case syscall.EROFS:
			return told{errno, fs.ErrPermission}
		case syscall.ENXIO:
			return backend.ErrSpecialFile
		case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
			return backend.ErrNoSpace
		case syscall.ELOOP:
			return backend.ErrLinkLoop
		}
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) && (errno == 0 || k.err != errors.ErrUnsupported) {
			return k.err
		}
	}
	switch {
	case slices.Contains(transient, errno):
		return errno
	case errno != 0:
		return told{errno, fs.ErrInvalid}
	case errors.Is(err, tar.ErrHeader), errors.Is(err, io.ErrUnexpectedEOF):
		return backend.ErrArchive
	}
	// An *os.Root has no name for this one.
	if strings.HasSuffix(err.Error(), "path escapes from parent") {
		return backend.ErrOutside
	}
	return err
}
