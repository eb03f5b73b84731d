package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"github.com/sandbox-go/sandbox/backend"
)

func (sb *box) Files() Files { return files{sb} }

// files checks what a sandbox is asked of its files, and says which sandbox an
// error is about.
type files struct{ sb *box }

// open returns the backend's files, if the names are fit to ask it for.
func (f files) open(op string, names ...string) (backend.Files, error) {
	for _, name := range names {
		if name == "" {
			return nil, f.wrap(op, invalidf("name", "is empty: name a file, or . for the start directory"))
		}
		if err := noNUL("name", name); err != nil {
			return nil, f.wrap(op, err)
		}
	}
	if err := f.sb.usable(); err != nil {
		return nil, f.wrap(op, err)
	}
	filer, ok := f.sb.instance.(backend.Filer)
	if !ok || !f.sb.backend.Files {
		return nil, f.wrap(op, errors.ErrUnsupported)
	}
	return filer.Files(), nil
}

func (f files) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	var about *fs.PathError
	if gone := f.sb.usable(); gone != nil && !errors.Is(err, gone) && !errors.As(err, &about) {
		err = fmt.Errorf("%w: %w", gone, err) // which is why
	}
	return &Error{Op: op, Sandbox: f.sb.id, Err: err}
}

func (f files) Stat(ctx context.Context, name string) (FileInfo, error) {
	b, err := f.open("stat", name)
	if err != nil {
		return FileInfo{}, err
	}
	info, err := b.Stat(ctx, name)
	return info, f.wrap("stat", err)
}

func (f files) List(ctx context.Context, name string, recursive bool) iter.Seq2[FileInfo, error] {
	return func(yield func(FileInfo, error) bool) {
		b, err := f.open("list", name)
		if err != nil {
			yield(FileInfo{}, err)
			return
		}
		for info, err := range b.List(ctx, name, recursive) {
			if !yield(info, f.wrap("list", err)) || err != nil {
				return
			}
		}
	}
}

func (f files) Read(ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error) {
	b, err := f.open("read", name)
	if err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, f.wrap("read", invalidf("offset", "%d is negative", offset))
	}
	r, err := b.Read(ctx, name, offset, limit)
	return r, f.wrap("read", err)
}

func (f files) Write(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error {
	b, err := f.open("write", name)
	if err != nil {
		return err
	}
	if err := onlyPermissions(mode); err != nil {
		return f.wrap("write", err)
	}
	return f.wrap("write", b.Write(ctx, name, content, mode))
}

func (f files) Mkdir(ctx context.Context, name string, mode fs.FileMode) error {
	b, err := f.open("mkdir", name)
	if err != nil {
		return err
	}
	if err := onlyPermissions(mode); err != nil {
		return f.wrap("mkdir", err)
	}
	return f.wrap("mkdir", b.Mkdir(ctx, name, mode))
}

// onlyPermissions refuses what a mode cannot ask for here.
func onlyPermissions(mode fs.FileMode) error {
	if mode&^fs.ModePerm != 0 {
		return invalidf("mode", "%v has more than permission bits", mode)
	}
	return nil
}

func (f files) Remove(ctx context.Context, name string, recursive bool) error {
	b, err := f.open("remove", name)
	if err != nil {
		return err
	}
	return f.wrap("remove", b.Remove(ctx, name, recursive))
}

func (f files) Rename(ctx context.Context, from, to string) error {
	b, err := f.open("rename", from, to)
	if err != nil {
		return err
	}
	return f.wrap("rename", b.Rename(ctx, from, to))
}

func (f files) ReadTar(ctx context.Context, name string) (io.ReadCloser, error) {
	b, err := f.open("read tar", name)
	if err != nil {
		return nil, err
	}
	r, err := b.ReadTar(ctx, name)
	return r, f.wrap("read tar", err)
}

func (f files) WriteTar(ctx context.Context, name string, archive io.Reader) error {
	b, err := f.open("write tar", name)
	if err != nil {
		return err
	}
	return f.wrap("write tar", b.WriteTar(ctx, name, archive))
}
