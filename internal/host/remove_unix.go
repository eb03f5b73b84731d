//go:build unix

package host

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Remove removes the tree at root, whatever its owner has made of it: directories
// closed to everybody, and deeper than a path or the process's descriptors could
// reach. What is in a directory of the top is moved up to the top, so two are open
// at most.
func Remove(root string) error {
	top, err := openDir(unix.AT_FDCWD, root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer top.Close()
	for moved := 0; ; {
		if _, err := top.Seek(0, io.SeekStart); err != nil {
			return err
		}
		names, err := top.Readdirnames(-1)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return os.Remove(root)
		}
		for _, name := range names {
			if err := removeEntry(top, name, &moved); err != nil {
				return err
			}
		}
	}
}

// removeEntry removes an entry of top. Directories that are in it get a place in
// top; moved counts them, and is their name.
func removeEntry(top *os.File, name string, moved *int) error {
	if unlink(top, name) == nil {
		return nil
	}
	dir, err := openDir(int(top.Fd()), name)
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, child := range names {
		if unlink(dir, child) == nil {
			continue
		}
		if err := moveUp(dir, child, top, moved); err != nil {
			return err
		}
	}
	return unlink(top, name)
}

func moveUp(dir *os.File, child string, top *os.File, moved *int) error {
	enter(int(dir.Fd()), child) // a move changes its ".."
	for {
		*moved++
		err := unix.Renameat(int(dir.Fd()), child, int(top.Fd()), strconv.Itoa(*moved))
		switch err {
		case nil:
			return nil
		case unix.ENOTEMPTY, unix.EEXIST, unix.ENOTDIR: // the name is taken
		default:
			return &os.PathError{Op: "rename", Path: child, Err: err}
		}
	}
}

// unlink removes a file or an empty directory.
func unlink(dir *os.File, name string) error {
	if unix.Unlinkat(int(dir.Fd()), name, 0) == nil {
		return nil
	}
	if err := unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR); err != nil {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

func openDir(parent int, name string) (*os.File, error) {
	enter(parent, name)
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// enter opens a directory of the service's own user to it. Root needs no mode, and
// must not change one: a name may lead elsewhere by now. Where root has no capability
// to enter what is another's, it takes the directory first, and then nobody else can
// put something in its place: what is above is root's too, or sticky.
func enter(parent int, name string) {
	if os.Geteuid() == 0 {
		if entersAll() || !isDir(parent, name, nil) {
			return
		}
		root := uint32(0)
		if unix.Fchownat(parent, name, 0, 0, unix.AT_SYMLINK_NOFOLLOW) != nil || !isDir(parent, name, &root) {
			return
		}
	}
	unix.Fchmodat(parent, name, 0o700, 0)
}

// isDir reports whether name is a directory, and of that owner, if there is one.
func isDir(parent int, name string, owner *uint32) bool {
	var st unix.Stat_t
	err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && (owner == nil || st.Uid == *owner)
}
