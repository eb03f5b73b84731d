package files

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/sandbox-go/sandbox/backend"
)

// A Tree is a backend.Filer of this process and its user.
type Tree struct {
	// KeepInside refuses an archive with a symbolic link that leads out of the
	// directory into which it is unpacked.
	KeepInside bool

	place fsys
	root  *os.Root // nil for everywhere
	start string   // this process's name of the start directory, which is not to be removed
}

// In returns the files below root, out of which no name leads. The start directory
// is in it or elsewhere; start is a name of it for this process.
func In(root *os.Root, start string) *Tree { return &Tree{place: root, root: root, start: start} }

// Everywhere returns all files. The start directory, where relative names begin, is
// the working directory.
func Everywhere() *Tree { return &Tree{place: hostFS{}, start: "."} }

var _ backend.Filer = (*Tree)(nil)

const knownFlags = backend.FileRecursive | backend.FileParents | backend.FileKeepMode

// File implements [backend.Filer]. FileReadTar and FileWriteTar call Found, unless it
// is nil, for each entry when it is packed or unpacked.
func (t *Tree) File(ctx context.Context, r *backend.FileRequest) error {
	return pathError(r, t.do(ctx, r))
}

func (t *Tree) do(ctx context.Context, r *backend.FileRequest) error {
	if r.Flags&^knownFlags != 0 {
		return errors.ErrUnsupported
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	switch r.Op {
	case backend.FileStat:
		return t.stat(r)
	case backend.FileList:
		return t.list(ctx, r)
	case backend.FileRead:
		return t.read(ctx, r)
	case backend.FileWrite:
		return t.write(r)
	case backend.FileMkdir:
		return t.mkdirAll(r.Name, r.Mode)
	case backend.FileRemove:
		return t.remove(ctx, r)
	case backend.FileRename:
		return t.rename(r.Name, r.To)
	case backend.FileChmod:
		return t.place.Chmod(r.Name, r.Mode)
	case backend.FileReadTar:
		return t.readTar(ctx, r)
	case backend.FileWriteTar:
		return t.writeTar(ctx, r)
	}
	return errors.ErrUnsupported
}

func (t *Tree) stat(r *backend.FileRequest) error {
	info, err := t.place.Stat(r.Name)
	if err == nil {
		r.Found(describe(r.Name, info))
	}
	return err
}

func describe(name string, info fs.FileInfo) backend.FileInfo {
	d := backend.FileInfo{Path: name, Mode: info.Mode(), ModTime: info.ModTime()}
	if info.Mode().IsRegular() {
		d.Size = info.Size()
	}
	return d
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

func (t *Tree) list(ctx context.Context, r *backend.FileRequest) error {
	info, err := t.place.Stat(r.Name)
	if err == nil && !info.IsDir() {
		err = backend.ErrNotDirectory
	}
	if err != nil {
		return err
	}
	err = t.walk(ctx, r.Name, "", r.Flags&backend.FileRecursive != 0, func(d backend.FileInfo) error {
		if !r.Found(d) {
			return errEnough
		}
		return nil
	})
	if err == errEnough {
		return nil
	}
	return err
}

// walk visits what is in the directory below of name, until visit returns an error.
func (t *Tree) walk(ctx context.Context, name, below string, recursive bool, visit func(backend.FileInfo) error) error {
	dir := join(name, below)
	names, err := t.names(dir)
	if err != nil {
		return about(dir, err)
	}
	for _, entry := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		full := join(dir, entry)
		info, err := t.place.Lstat(full)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return about(full, err)
		}
		d := describe(path.Join(below, entry), info)
		if info.Mode()&fs.ModeSymlink != 0 {
			d.Target, _ = t.place.Readlink(full)
		}
		if err := visit(d); err != nil {
			return err
		}
		if recursive && info.IsDir() {
			if err := t.walk(ctx, name, d.Path, recursive, visit); err != nil {
				return err
			}
		}
	}
	return nil
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

func (t *Tree) read(ctx context.Context, r *backend.FileRequest) error {
	f, _, err := t.openRegular(r.Name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(r.Offset, io.SeekStart); err != nil {
		return err
	}
	var content io.Reader = bounded{ctx, f}
	if r.Limit > 0 {
		content = io.LimitReader(content, r.Limit)
	}
	_, err = io.Copy(r.Output, content)
	return err
}

// bounded is a Reader until its context ends.
type bounded struct {
	ctx context.Context
	io.Reader
}

func (b bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.Reader.Read(p)
}

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

func (t *Tree) write(r *backend.FileRequest) error {
	if strings.HasSuffix(r.Name, "/") {
		return backend.ErrIsDirectory
	}
	name, err := target(t.place, r.Name)
	if err != nil {
		return err
	}
	mode := r.Mode
	switch info, err := t.place.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case regular(info) != nil:
		return regular(info)
	case r.Flags&backend.FileKeepMode != 0:
		mode = info.Mode().Perm()
	}
	dir := parent(name)
	temp := join(dir, ".sandbox-"+rand.Text())
	f, err := t.create(temp)
	if r.Flags&backend.FileParents != 0 && errors.Is(err, fs.ErrNotExist) {
		if err := t.mkdirAll(dir, 0o755); err != nil {
			return err
		}
		f, err = t.create(temp)
	}
	if err == nil {
		err = t.fill(f, temp, r.Content, mode)
	}
	if err != nil {
		return err
	}
	if err := t.place.Rename(temp, name); err != nil {
		t.place.Remove(temp)
		return err
	}
	return nil
}

// create makes a file that is not there.
func (t *Tree) create(name string) (*os.File, error) {
	return t.place.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// fill writes the content of f, which name is of, gives it its mode and closes it. It
// removes it when that fails.
func (t *Tree) fill(f *os.File, name string, content io.Reader, mode fs.FileMode) error {
	_, err := io.Copy(f, content)
	if err == nil {
		err = f.Chmod(mode) // whatever the umask
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.place.Remove(name)
		return err
	}
	return nil
}

func (t *Tree) mkdirAll(name string, mode fs.FileMode) error {
	err := t.place.MkdirAll(name, mode)
	if errors.Is(err, fs.ErrExist) {
		err = backend.ErrNotDirectory
	}
	return err
}
