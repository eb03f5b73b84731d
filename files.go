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

// files checks what a sandbox is asked of its files, ends with the sandbox what
// takes its time, and says which sandbox an error is about.
type files struct{ sb *box }

// A work is something that is done to the files of a backend.
type work struct {
	backend.Files
	ctx  context.Context // the caller's, until the sandbox is gone
	done context.CancelFunc
}

// begin begins a work, if the names are fit to ask the backend for. The caller
// calls done when it is over.
func (f files) begin(ctx context.Context, op string, names ...string) (*work, error) {
	for _, name := range names {
		if name == "" {
			return nil, f.wrap(op, invalidf(FieldName, "is empty: name a file, or . for the start directory"))
		}
		if err := noNUL(FieldName, name); err != nil {
			return nil, f.wrap(op, err)
		}
	}
	if err := f.sb.usable(); err != nil {
		return nil, f.wrap(op, err)
	}
	filer, ok := f.sb.instance.(backend.Filer)
	if !f.sb.backend.Files {
		return nil, f.wrap(op, errors.ErrUnsupported)
	}
	if !ok { // it was recovered
		return nil, f.wrap(op, errHidden("Files", f.sb.instance, "backend.Filer"))
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(f.sb.life, cancel)
	return &work{filer.Files(), ctx, func() { stop(); cancel() }}, nil
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
	w, err := f.begin(ctx, "stat", name)
	if err != nil {
		return FileInfo{}, err
	}
	defer w.done()
	info, err := w.Stat(w.ctx, name)
	return info, f.wrap("stat", err)
}

func (f files) List(ctx context.Context, name string, recursive bool) iter.Seq2[FileInfo, error] {
	return func(yield func(FileInfo, error) bool) {
		w, err := f.begin(ctx, "list", name)
		if err != nil {
			yield(FileInfo{}, err)
			return
		}
		defer w.done()
		for info, err := range w.List(w.ctx, name, recursive) {
			if !yield(info, f.wrap("list", err)) || err != nil {
				return
			}
		}
	}
}

func (f files) Read(ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error) {
	w, err := f.begin(ctx, "read", name)
	if err != nil {
		return nil, err
	}
	if offset < 0 {
		w.done()
		return nil, f.wrap("read", invalidf(FieldOffset, "%d is negative", offset))
	}
	r, err := w.Read(w.ctx, name, offset, limit)
	return f.reading(w, "read", r, err)
}

func (f files) Write(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error {
	w, err := f.begin(ctx, "write", name)
	if err != nil {
		return err
	}
	defer w.done()
	if err := onlyPermissions(mode); err != nil {
		return f.wrap("write", err)
	}
	return f.wrap("write", w.Write(w.ctx, name, &guardedReader{r: content}, mode))
}

func (f files) Mkdir(ctx context.Context, name string, mode fs.FileMode) error {
	w, err := f.begin(ctx, "mkdir", name)
	if err != nil {
		return err
	}
	defer w.done()
	if err := onlyPermissions(mode); err != nil {
		return f.wrap("mkdir", err)
	}
	return f.wrap("mkdir", w.Mkdir(w.ctx, name, mode))
}

// onlyPermissions refuses what a mode cannot ask for here.
func onlyPermissions(mode fs.FileMode) error {
	if mode&^fs.ModePerm != 0 {
		return invalidf(FieldMode, "%v has more than permission bits", mode)
	}
	return nil
}

func (f files) Remove(ctx context.Context, name string, recursive bool) error {
	w, err := f.begin(ctx, "remove", name)
	if err != nil {
		return err
	}
	defer w.done()
	return f.wrap("remove", w.Remove(w.ctx, name, recursive))
}

func (f files) Rename(ctx context.Context, from, to string) error {
	w, err := f.begin(ctx, "rename", from, to)
	if err != nil {
		return err
	}
	defer w.done()
	return f.wrap("rename", w.Rename(w.ctx, from, to))
}

func (f files) ReadTar(ctx context.Context, name string) (io.ReadCloser, error) {
	w, err := f.begin(ctx, "read tar", name)
	if err != nil {
		return nil, err
	}
	r, err := w.ReadTar(w.ctx, name)
	return f.reading(w, "read tar", r, err)
}

func (f files) WriteTar(ctx context.Context, name string, archive io.Reader) error {
	w, err := f.begin(ctx, "write tar", name)
	if err != nil {
		return err
	}
	defer w.done()
	return f.wrap("write tar", w.WriteTar(w.ctx, name, &guardedReader{r: archive}))
}

// reading returns what a work gave to be read, which is over with its Close.
func (f files) reading(w *work, op string, r io.ReadCloser, err error) (io.ReadCloser, error) {
	if err != nil {
		w.done()
		return nil, f.wrap(op, err)
	}
	return &content{r, f, w, op}, nil
}

// A content is of a file or an archive.
type content struct {
	io.ReadCloser
	files files
	work  *work
	op    string
}

func (c *content) Read(p []byte) (int, error) {
	if err := c.files.sb.life.Err(); err != nil { // the work may not have heard of it yet
		return 0, c.files.wrap(c.op, err)
	}
	n, err := c.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = c.files.wrap(c.op, err)
	}
	return n, err
}

func (c *content) Close() error {
	defer c.work.done()
	return c.ReadCloser.Close()
}
