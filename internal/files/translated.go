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

// Translated returns f for users who have other names for its files: inside
// returns f's name of a user's name.
func Translated(f backend.Files, inside func(name string) (string, error)) backend.Files {
	return &translated{f, inside}
}

type translated struct {
	files  backend.Files
	inside func(name string) (string, error)
}

// do does something to the file of a user's name, and has an error about it say
// that name.
func (t *translated) do(op, name string, do func(inside string) error) error {
	inside, err := t.inside(name)
	if err != nil {
		return pathError(op, name, err)
	}
	err = do(inside)
	var p *fs.PathError
	if errors.As(err, &p) && strings.HasPrefix(p.Path, inside) {
		p.Path = name + strings.TrimPrefix(p.Path, inside)
	}
	return err
}

func (t *translated) Stat(ctx context.Context, name string) (info backend.FileInfo, err error) {
	err = t.do("stat", name, func(inside string) error {
		info, err = t.files.Stat(ctx, inside)
		info.Path = name
		return err
	})
	return info, err
}

func (t *translated) List(ctx context.Context, name string, recursive bool) iter.Seq2[backend.FileInfo, error] {
	return func(yield func(backend.FileInfo, error) bool) {
		err := t.do("list", name, func(inside string) error {
			for info, err := range t.files.List(ctx, inside, recursive) {
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

func (t *translated) Read(ctx context.Context, name string, offset, limit int64) (r io.ReadCloser, err error) {
	err = t.do("read", name, func(inside string) error {
		r, err = t.files.Read(ctx, inside, offset, limit)
		return err
	})
	return r, err
}

func (t *translated) Write(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error {
	return t.do("write", name, func(inside string) error { return t.files.Write(ctx, inside, content, mode) })
}

func (t *translated) Mkdir(ctx context.Context, name string, mode fs.FileMode) error {
	return t.do("mkdir", name, func(inside string) error { return t.files.Mkdir(ctx, inside, mode) })
}

func (t *translated) Remove(ctx context.Context, name string, recursive bool) error {
	return t.do("remove", name, func(inside string) error { return t.files.Remove(ctx, inside, recursive) })
}

func (t *translated) Rename(ctx context.Context, from, to string) error {
	inside, err := t.inside(to)
	if err != nil {
		return pathError("rename", to, err)
	}
	return t.do("rename", from, func(from string) error { return t.files.Rename(ctx, from, inside) })
}

func (t *translated) ReadTar(ctx context.Context, name string) (r io.ReadCloser, err error) {
	err = t.do("read tar", name, func(inside string) error {
		r, err = t.files.ReadTar(ctx, inside)
		return err
	})
	return r, err
}

func (t *translated) WriteTar(ctx context.Context, name string, archive io.Reader) error {
	return t.do("write tar", name, func(inside string) error { return t.files.WriteTar(ctx, inside, archive) })
}
