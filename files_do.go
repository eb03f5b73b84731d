package sandbox

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/sandbox-go/sandbox/backend"
)

// do has the backend do r, until the context or the sandbox ends.
func (f *Files) do(ctx context.Context, r *backend.FileRequest) error {
	filer, err := f.check(r)
	if err != nil {
		return f.wrap(r.Op, err)
	}
	ctx, cancel := f.alive(ctx)
	defer cancel()
	if r.Content == nil {
		return f.wrap(r.Op, filer.File(ctx, r))
	}
	given := &content{ctx: ctx, r: &guardedReader{r: r.Content}}
	r.Content = given
	err = filer.File(ctx, r)
	return f.wrap(r.Op, cmp.Or(given.failure(), err)) // what the backend says is what came of it
}

// check refuses what is not fit to ask the backend for, and returns whom to ask.
func (f *Files) check(r *backend.FileRequest) (backend.Filer, error) {
	names := []string{r.Name}
	if r.Op == backend.FileRename {
		names = append(names, r.To)
	}
	for _, name := range names {
		if name == "" {
			return nil, invalidf(FieldName, "is empty: name a file, or . for the start directory")
		}
		if err := noNUL(FieldName, name); err != nil {
			return nil, err
		}
	}
	switch {
	case r.Mode&^fs.ModePerm != 0:
		return nil, invalidf(FieldMode, "%v has more than permission bits", r.Mode)
	case r.Offset < 0:
		return nil, invalidf(FieldOffset, "%d is negative", r.Offset)
	case r.Limit < 0:
		return nil, invalidf(FieldLimit, "%d is negative", r.Limit)
	}
	if err := f.sb.usable(); err != nil {
		return nil, err
	}
	filer, ok := f.sb.instance.(backend.Filer)
	if !f.sb.backend.Files {
		return nil, errors.ErrUnsupported
	}
	if !ok { // it was recovered
		return nil, errHidden("Files", f.sb.instance, "backend.Filer")
	}
	return filer, nil
}

// alive returns a context that ends with the sandbox, too.
func (f *Files) alive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(f.sb.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// wrap says which sandbox an error is about, and that its end is the reason.
func (f *Files) wrap(op backend.FileOp, err error) error {
	if err == nil {
		return nil
	}
	var about *fs.PathError
	if gone := f.sb.usable(); gone != nil && !errors.Is(err, gone) && !errors.As(err, &about) {
		err = fmt.Errorf("%w: %w", gone, err)
	}
	return &Error{Op: string(op), Sandbox: f.sb.id, Err: err}
}

// open begins r, whose output is read while it goes on. It returns an error that comes
// before any output.
func (f *Files) open(ctx context.Context, r *backend.FileRequest) (io.ReadCloser, error) {
	ctx, cancel := f.alive(ctx)
	pipe, w := io.Pipe()
	r.Output = w
	o := &opened{Reader: bufio.NewReaderSize(pipe, pieceSize), pipe: pipe, cancel: cancel, done: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(f.wrap(r.Op, ctx.Err())) })
	go func() {
		defer close(o.done)
		defer stop()
		err := f.do(ctx, r)
		if err == nil { // a sandbox that has ended has no files, whether they were read by then or not
			err = f.wrap(r.Op, f.sb.usable())
		}
		w.CloseWithError(err)
	}()
	if _, err := o.Peek(1); err != nil && err != io.EOF {
		o.Close()
		return nil, err
	}
	return o, nil
}

const pieceSize = 64 << 10

// An opened is a file or an archive that comes out of the sandbox.
type opened struct {
	*bufio.Reader
	pipe   *io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

// Close ends what writes the output.
func (o *opened) Close() error {
	o.cancel()
	o.pipe.Close()
	<-o.done
	return nil
}

// A content is a user's reader until the context ends, even while a Read of it blocks,
// which is then left behind.
type content struct {
	ctx context.Context
	r   io.Reader
	buf []byte // what is read into, since p is the caller's again when Read returns

	mu  sync.Mutex // guards err: the backend does not wait for a Read
	err error      // the last that is not io.EOF
}

func (c *content) Read(p []byte) (n int, err error) {
	if n, err = c.read(p); err != nil && err != io.EOF {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.err = err
	}
	return n, err
}

func (c *content) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *content) read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	if len(c.buf) < len(p) {
		c.buf = make([]byte, len(p))
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := c.r.Read(c.buf[:len(p)])
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return copy(p, c.buf[:r.n]), r.err
	case <-c.ctx.Done():
		return 0, c.ctx.Err()
	}
}

// bounded fails when there is more to read than left bytes.
type bounded struct {
	io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}
