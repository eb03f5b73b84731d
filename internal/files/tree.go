package files

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/sandbox-go/sandbox/backend"
)

// A Tree is a backend.Files of this process and its user.
type Tree struct {
	place place
	root  *os.Root // nil for everywhere
	start string   // this process's name of the start directory, which is not to be removed
}

// In returns the files below root, out of which no name leads. The start directory
// is in it or elsewhere; start is a name of it for this process.
func In(root *os.Root, start string) *Tree { return &Tree{place: root, root: root, start: start} }

// Everywhere returns all files. The start directory, where relative names begin, is
// the working directory.
func Everywhere() *Tree { return &Tree{place: everywhere{}, start: "."} }

var _ backend.Files = (*Tree)(nil)

func (t *Tree) Stat(_ context.Context, name string) (backend.FileInfo, error) {
	info, err := t.place.Stat(name)
	if err != nil {
		return backend.FileInfo{}, pathError("stat", name, err)
	}
	return describe(name, info), nil
}

func describe(name string, info fs.FileInfo) backend.FileInfo {
	d := backend.FileInfo{Path: name, Mode: info.Mode(), ModTime: info.ModTime()}
	if info.Mode().IsRegular() {
		d.Size = info.Size()
	}
	return d
}

func (t *Tree) List(ctx context.Context, name string, recursive bool) iter.Seq2[backend.FileInfo, error] {
	return func(yield func(backend.FileInfo, error) bool) {
		info, err := t.place.Stat(name)
		if err == nil && !info.IsDir() {
			err = backend.ErrNotDirectory
		}
		if err != nil {
			yield(backend.FileInfo{}, pathError("list", name, err))
			return
		}
		t.list(ctx, name, "", recursive, yield)
	}
}

// list describes what is in the directory below of name.
func (t *Tree) list(ctx context.Context, name, below string, recursive bool, yield func(backend.FileInfo, error) bool) bool {
	dir := join(name, below)
	names, err := t.names(dir)
	if err != nil {
		yield(backend.FileInfo{}, pathError("list", dir, err))
		return false
	}
	for _, entry := range names {
		if err := ctx.Err(); err != nil {
			yield(backend.FileInfo{}, err)
			return false
		}
		full := join(dir, entry)
		info, err := t.place.Lstat(full)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			yield(backend.FileInfo{}, pathError("list", full, err))
			return false
		}
		d := describe(path.Join(below, entry), info)
		if info.Mode()&fs.ModeSymlink != 0 {
			d.Target, _ = t.place.Readlink(full)
		}
		if !yield(d, nil) {
			return false
		}
		if recursive && info.IsDir() && !t.list(ctx, name, d.Path, recursive, yield) {
			return false
		}
	}
	return true
}

// names returns the names in a directory, sorted.
func (t *Tree) names(dir string) ([]string, error) {
	f, names, err := t.openNames(dir)
	if err != nil {
		return nil, err
	}
	return names, f.Close()
}

// openNames opens a directory, and returns the names in it, sorted.
func (t *Tree) openNames(dir string) (*os.File, []string, error) {
	f, err := t.place.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	names, err := f.Readdirnames(-1)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	slices.Sort(names)
	return f, names, nil
}

func (t *Tree) Read(ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error) {
	f, _, err := t.openRegular(name)
	if err != nil {
		return nil, pathError("read", name, err)
	}
	if offset > 0 {
		if _, err := f.Seek(offset, io.SeekStart); err != nil {
			f.Close()
			return nil, pathError("read", name, err)
		}
	}
	var r io.Reader = f
	if limit >= 0 {
		r = io.LimitReader(f, limit)
	}
	return &reading{bounded{ctx, r}, f, name}, nil
}

// A reading is of one file. Some, as /proc/self/mem, can be opened and not read.
type reading struct {
	r    bounded
	file *os.File
	name string
}

func (r *reading) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF && r.r.ctx.Err() == nil {
		err = pathError("read", r.name, err)
	}
	return n, err
}

func (r *reading) Close() error { return r.file.Close() }

// openRegular opens a regular file for reading, and nothing else, without
// blocking on what is something else.
func (t *Tree) openRegular(name string) (*os.File, fs.FileInfo, error) {
	info, err := t.place.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if err := regular(info); err != nil {
		return nil, nil, err
	}
	f, err := t.place.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err = f.Stat() // it may be another by now
	if err == nil {
		err = regular(info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func regular(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return backend.ErrIsDirectory
	case !info.Mode().IsRegular():
		return backend.ErrSpecialFile
	}
	return nil
}

func (t *Tree) Write(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error {
	if strings.HasSuffix(name, "/") {
		return pathError("write", name, backend.ErrIsDirectory)
	}
	final, err := target(t.place, name)
	if err == nil {
		err = t.replaceable(final)
	}
	if err != nil {
		return pathError("write", name, err)
	}
	temp := join(parent(final), ".sandbox-"+rand.Text())
	if err := t.create(ctx, temp, content, mode); err != nil {
		return pathError("write", name, err)
	}
	if err := t.place.Rename(temp, final); err != nil {
		t.place.Remove(temp)
		return pathError("write", name, err)
	}
	return nil
}

// replaceable says why name cannot be replaced by a file, or nil.
func (t *Tree) replaceable(name string) error {
	info, err := t.place.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return regular(info)
}

// create makes a file of that content, or none.
func (t *Tree) create(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error {
	f, err := t.place.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, readFrom(ctx, content))
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = f.Chmod(mode) // whatever the umask
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.place.Remove(name)
		return err
	}
	return nil
}

func (t *Tree) Mkdir(_ context.Context, name string, mode fs.FileMode) error {
	err := t.place.MkdirAll(name, mode)
	if errors.Is(err, fs.ErrExist) {
		err = backend.ErrNotDirectory
	}
	return pathError("mkdir", name, err)
}
