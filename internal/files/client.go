package files

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/framing"
)

// A Client is a backend.Files that does each operation in a process of the
// sandbox, as its user.
type Client struct {
	// Start starts a command in the sandbox.
	Start func(context.Context, *backend.Spec) (backend.Process, error)

	// Program is the beginning of the command line that runs Main.
	Program []string

	// Root is the directory that no name may lead out of, or empty.
	Root string
}

var _ backend.Files = (*Client)(nil)

// A request is one operation on its way to the process.
type request struct {
	op     string // as backend.Files calls it, for errors
	name   string
	args   []string
	stdin  io.Reader
	stdout io.Writer
}

// maxError bounds what is read of an error; file names are at most 4 KiB, quoted.
const maxError = 64 << 10

// tidyTime is how long a process whose input was broken off may take to remove
// what it has begun.
const tidyTime = time.Second

// do runs one operation to its end.
func (c *Client) do(ctx context.Context, r request) error {
	spec := &backend.Spec{Argv: slices.Concat(c.Program, []string{c.Root}, r.args), Stdout: r.stdout}
	var stderr capped
	spec.Stderr = &stderr
	if r.stdout == nil {
		spec.Stdout = io.Discard
	}
	var input *feed
	if r.stdin != nil {
		input = newFeed(r.stdin)
		defer input.stop()
		spec.Stdin = input
	}
	p, err := c.Start(ctx, spec)
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.op, r.name, err)
	}
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		if input != nil {
			input.stop()
			select {
			case <-over:
			case <-time.After(tidyTime):
			}
		}
		p.Kill()
	})
	exit, err := p.Exit()
	<-p.OutputOver()
	close(over)
	switch {
	case !stop():
		return ctx.Err()
	case input != nil && input.failed() != nil:
		return input.failed()
	case err != nil:
		return fmt.Errorf("%s %s: %w", r.op, r.name, err)
	case exit.Signal != 0:
		return fmt.Errorf("%s %s: the agent was ended by %v", r.op, r.name, exit.Signal)
	case exit.Code != 0:
		return decodeError(r.op, stderr.String())
	}
	return nil
}

// A feed is content on its way to the process.
type feed struct {
	*io.PipeReader
	mu  sync.Mutex
	err error // of reading the content
}

func newFeed(content io.Reader) *feed {
	r, w := io.Pipe()
	f := &feed{PipeReader: r}
	go func() {
		err := framing.Copy(w, &failing{Reader: content, failed: f.fail})
		w.CloseWithError(err)
	}()
	return f
}

// stop ends the input where it is. Nobody waits for a Read of the content.
func (f *feed) stop() { f.PipeReader.CloseWithError(framing.ErrIncomplete) }

func (f *feed) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *feed) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// failing tells of an error that is not the end.
type failing struct {
	io.Reader
	failed func(error)
}

func (r *failing) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		r.failed(err)
	}
	return n, err
}

// output runs an operation whose output is read while it goes on. An error that
// comes before any output is returned here.
func (c *Client) output(ctx context.Context, op, verb, name string, args ...string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	o := &output{Reader: bufio.NewReaderSize(r, 64<<10), pipe: r, cancel: cancel, done: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) }) // nobody may be reading
	go func() {
		defer close(o.done)
		defer stop()
		w.CloseWithError(c.do(ctx, request{op: op, name: name, args: append([]string{verb, name}, args...), stdout: w}))
	}()
	if _, err := o.Peek(1); err != nil && err != io.EOF {
		o.Close()
		return nil, err
	}
	return o, nil
}

// output is what a process writes.
type output struct {
	*bufio.Reader
	pipe   *io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

// Close ends the process.
func (o *output) Close() error {
	o.cancel()
	o.pipe.Close()
	<-o.done
	return nil
}

// capped keeps the beginning of what is written to it.
type capped struct{ bytes.Buffer }

func (b *capped) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxError-b.Len())])
	return len(p), nil
}

// simple is an operation on one file without more than its exit.
func (c *Client) simple(ctx context.Context, op, verb, name string, stdin io.Reader, args ...string) error {
	return c.do(ctx, request{op: op, name: name, args: append([]string{verb, name}, args...), stdin: stdin})
}

func (c *Client) Stat(ctx context.Context, name string) (backend.FileInfo, error) {
	r, err := c.output(ctx, "stat", "stat", name)
	if err != nil {
		return backend.FileInfo{}, err
	}
	defer r.Close()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		return backend.FileInfo{}, err
	}
	return decodeInfo(line)
}

func (c *Client) List(ctx context.Context, name string, recursive bool) iter.Seq2[backend.FileInfo, error] {
	return func(yield func(backend.FileInfo, error) bool) {
		r, err := c.output(ctx, "list", "list", name, strconv.FormatBool(recursive))
		if err != nil {
			yield(backend.FileInfo{}, err)
			return
		}
		defer r.Close()
		for lines := bufio.NewReader(r); ; {
			line, err := lines.ReadString('\n')
			if err == io.EOF {
				return
			}
			var info backend.FileInfo
			if err == nil {
				info, err = decodeInfo(line)
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

func (c *Client) Read(ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error) {
	return c.output(ctx, "read", "read", name, strconv.FormatInt(offset, 10), strconv.FormatInt(limit, 10))
}

func (c *Client) Write(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error {
	return c.simple(ctx, "write", "write", name, content, strconv.FormatUint(uint64(mode), 8))
}

func (c *Client) Mkdir(ctx context.Context, name string, mode fs.FileMode) error {
	return c.simple(ctx, "mkdir", "mkdir", name, nil, strconv.FormatUint(uint64(mode), 8))
}

// Open has a directory of the user's be open to the user again.
func (c *Client) Open(ctx context.Context, name string) error {
	return c.simple(ctx, "open", "open", name, nil)
}

func (c *Client) Remove(ctx context.Context, name string, recursive bool) error {
	return c.simple(ctx, "remove", "remove", name, nil, strconv.FormatBool(recursive))
}

func (c *Client) Rename(ctx context.Context, from, to string) error {
	return c.simple(ctx, "rename", "rename", from, nil, to)
}

func (c *Client) ReadTar(ctx context.Context, name string) (io.ReadCloser, error) {
	return c.output(ctx, "read tar", "readtar", name)
}

func (c *Client) WriteTar(ctx context.Context, name string, archive io.Reader) error {
	return c.simple(ctx, "write tar", "writetar", name, archive)
}
