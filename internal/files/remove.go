package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/sandbox-go/sandbox/backend"
)

// remove asks the kernel for one entry first: that it refuses because the directory
// is not empty says that nothing else is in the way, as a mount point or a parent
// that cannot be written would be. So nothing is deleted before it is known that
// all can be.
func (t *Tree) remove(ctx context.Context, r *backend.FileRequest) error {
	err := t.isEntry(r.Name)
	if err == nil {
		err = t.place.Remove(r.Name)
	}
	if r.Flags&backend.FileRecursive == 0 || !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	if err := t.removableBelow(ctx, r.Name); err != nil {
		return err
	}
	return t.place.RemoveAll(r.Name)
}

// isEntry refuses what would take the start directory away, a name of it or of what
// it is in, and a slash after what is no directory: an *os.Root would follow a link.
func (t *Tree) isEntry(name string) error {
	trimmed := strings.TrimRight(name, "/")
	switch trimmed[strings.LastIndexByte(trimmed, '/')+1:] {
	case "", ".", "..":
		return invalid("is a directory by itself and not an entry of one: name the entries that are in it")
	}
	info, err := t.place.Lstat(trimmed)
	if err != nil {
		return nil // what is wrong with it shows when it is used
	}
	if !info.IsDir() {
		if name != trimmed {
			return syscall.ENOTDIR
		}
		return nil
	}
	for dir := t.start; ; dir += "/.." {
		start, err := os.Stat(dir)
		if err != nil {
			return nil
		}
		if os.SameFile(info, start) {
			return invalid("holds the start directory, which has to stay: name the entries that are in it")
		}
		if above, err := os.Stat(dir + "/.."); err != nil || os.SameFile(above, start) {
			return nil
		}
	}
}

// removableBelow says what below the directory name cannot be removed, or nil.
func (t *Tree) removableBelow(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	dir, names, err := t.openNames(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EMFILE):
		return nil // removed meanwhile, or deeper than a name can say
	case err != nil:
		return about(name, err)
	}
	defer dir.Close()
	if len(names) == 0 {
		return nil
	}
	if err := mayChange(dir); err != nil {
		return about(name, err)
	}
	for _, entry := range names {
		entry = join(name, entry)
		info, err := t.place.Lstat(entry)
		if err != nil || !info.IsDir() {
			continue
		}
		if isMount(dir, info) {
			return about(entry, syscall.EBUSY)
		}
		if err := t.removableBelow(ctx, entry); err != nil {
			return err
		}
	}
	return nil
}

// rename moves an entry. Two names of the start directory may be two mounts of it,
// between which the kernel moves nothing; then both are taken as relative ones.
func (t *Tree) rename(from, to string) error {
	for _, name := range []string{from, to} {
		if err := t.isEntry(name); err != nil {
			return about(name, err)
		}
	}
	err := t.place.Rename(from, to)
	if errors.Is(err, syscall.EXDEV) && t.root == nil {
		err = t.place.Rename(t.relative(from), t.relative(to))
	}
	if errors.Is(err, syscall.EXDEV) {
		err = otherFileSystem(to)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if _, missing := t.place.Lstat(from); missing == nil {
			return about(to, err)
		}
	}
	return err
}

func otherFileSystem(to string) error {
	return invalid("is on another file system than " + to + ": copy it there, and remove it here")
}

// relative returns the name below the start directory, if name leads through it.
func (t *Tree) relative(name string) string {
	start, err := t.place.Stat(t.start)
	if err != nil {
		return name
	}
	for i := len(name) - 1; i > 0; i-- {
		if name[i] != '/' {
			continue
		}
		if info, err := t.place.Stat(name[:i]); err == nil && os.SameFile(info, start) {
			return join(t.start, name[i+1:])
		}
	}
	return name
}
