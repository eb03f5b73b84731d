package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"strings"

	"github.com/sandbox-go/sandbox/backend"
)

// A Resolver says what a user's name leads to: files, and their own name of it.
type Resolver func(name string) (f backend.Files, inside string, err error)

// Translated returns files for users whose names for them are others.
func Translated(resolve Resolver) backend.Files { return translated{resolve} }

type translated struct{ resolve Resolver }

// do does something to the file of a user's name, and has an error about it say
// that name.
func (t translated) do(op, name string, do func(f backend.Files, inside string) error) error {
	f, inside, err := t.resolve(name)
	if err != nil {
		return pathError(op, name, err)
	}
	err = do(f, inside)
	var p *fs.PathError
	if errors.As(err, &p) && strings.HasPrefix(p.Path, inside) {
		p.Path = name + strings.TrimPrefix(p.Path, inside)
	}
	return err
}

func (t translated) Stat(ctx context.Context, name string) (info backend.FileInfo, err error) {
	err = t.do("stat", name, func(f backend.Files, inside string) error {
		info, err = f.Stat(ctx, inside)
		info.Path = name
		return err
	})
	return info, err
}

func (t translated) List(ctx context.Context, name string, recursive bool) iter.Seq2[backend.FileInfo, error] {
	return func(yield func(backend.FileInfo, error) bool) {
		err := t.do("list", name, func(f backend.Files, inside string) error {
			for info, err := range f.List(ctx, inside, recursive) {
				if err != nil {
					return err
				}
				if !yield(info, nil) {
					return nil
				}
			}
			return nil
		})
		if err != nil {
			yield(backend.FileInfo{}, err)
		}
	}
}

func (t translated) Read(ctx context.Context, name string, offset, limit int64) (r io.ReadCloser, err error) {
	err = t.do("read", name, func(f backend.Files, inside string) error {
		r, err = f.Read(ctx, inside, offset, limit)
		return err
	})
	return r, err
}

func (t translated) Write(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error {
	return t.do("write", name, func(f backend.Files, inside string) error { return f.Write(ctx, inside, content, mode) })
}

func (t translated) Mkdir(ctx context.Context, name string, mode fs.FileMode) error {
	return t.do("mkdir", name, func(f backend.Files, inside string) error { return f.Mkdir(ctx, inside, mode) })
}

func (t translated) Remove(ctx context.Context, name string, recursive bool) error {
	return t.do("remove", name, func(f backend.Files, inside string) error { return f.Remove(ctx, inside, recursive) })
}

func (t translated) Rename(ctx context.Context, from, to string) error {
	there, inside, err := t.resolve(to)
	if err != nil {
		return pathError("rename", to, err)
	}
	return t.do("rename", from, func(f backend.Files, from string) error {
		if !sameRoot(f, there) {
			return pathError("rename", from, otherFileSystem(to))
		}
		err := f.Rename(ctx, from, inside)
		if p := (*fs.PathError)(nil); errors.As(err, &p) && p.Path == inside {
			p.Path = to
		}
		return err
	})
}

func (t translated) ReadTar(ctx context.Context, name string) (r io.ReadCloser, err error) {
	err = t.do("read tar", name, func(f backend.Files, inside string) error {
		r, err = f.ReadTar(ctx, inside)
		return err
	})
	return r, err
}

func (t translated) WriteTar(ctx context.Context, name string, archive io.Reader) error {
	return t.do("write tar", name, func(f backend.Files, inside string) error { return f.WriteTar(ctx, inside, archive) })
}

// sameRoot reports whether the names in a and b begin in the same directory.
func sameRoot(a, b backend.Files) bool {
	switch a := a.(type) {
	case *Tree:
		b, ok := b.(*Tree)
		return ok && a.root == b.root
	case *Client:
		b, ok := b.(*Client)
		return ok && a.Root == b.Root
	}
	return false
}
