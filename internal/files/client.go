package files

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/framing"
)

// A Client is a backend.Filer that does each operation in a process of the sandbox,
// as its user.
type Client struct {
	// Start starts a command in the sandbox.
	Start func(context.Context, *backend.Spec) (backend.Process, error)

	// Program is the beginning of the command line that runs Main.
	Program []string

	// Root is the directory that no name may lead out of, or empty.
	Root string
}

var _ backend.Filer = (*Client)(nil)

const (
	// maxError bounds what is read of an error, and maxInfo what is read of one
	// file's line: names are at most 4 KiB, quoted.
	maxError = 64 << 10
	maxInfo  = 64 << 10

	// tidyTime is how long a process whose input was broken off may take to begin, and
	// to remove what it has begun. A busy machine needs more than a second.
	tidyTime = 5 * time.Second
)

// File implements [backend.Filer].
func (c *Client) File(ctx context.Context, r *backend.FileRequest) error {
	if r.Found == nil {
		return c.do(ctx, r, r.Output)
	}
	ctx, cancel := context.WithCancel(ctx)
	lines, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) }) // Found may take its time
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer stop()
		w.CloseWithError(c.do(ctx, r, w))
	}()
	defer func() {
		cancel()
		lines.Close()
		<-done
	}()
	for in := bufio.NewReaderSize(lines, maxInfo); ; {
		line, err := in.ReadSlice('\n')
		if err == io.EOF {
			return nil
		}
		var info backend.FileInfo
		if err == nil {
			info, err = decodeInfo(string(line))
		}
		if err != nil || !r.Found(info) {
			return err
		}
	}
}

// do has a process do r, and write to out, which may be nil.
func (c *Client) do(ctx context.Context, r *backend.FileRequest, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var stderr capped
	stdout := &sink{w: out, failed: cancel}
	spec := &backend.Spec{Argv: slices.Concat(c.Program, []string{c.Root, encodeRequest(r)}), Stdout: stdout, Stderr: &stderr}
	if err := ctx.Err(); err != nil {
		return err
	}
	var input *io.PipeReader
	starting := ctx
	if r.Content != nil {
		input = framed(r.Content)
		defer input.Close()
		spec.Stdin = input
		// A start that is given up kills a process that may have begun.
		var cancel context.CancelFunc
		starting, cancel = lasting(ctx, tidyTime)
		defer cancel()
	}
	p, err := c.Start(starting, spec)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%s %s: %w", r.Op, r.Name, err)
	}
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		if input != nil {
			input.CloseWithError(framing.ErrIncomplete)
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
		return cmp.Or(stdout.err, ctx.Err())
	case err != nil:
		return fmt.Errorf("%s %s: %w", r.Op, r.Name, err)
	case exit.Signal != 0:
		return fmt.Errorf("%s %s: the agent was ended by %v", r.Op, r.Name, exit.Signal)
	case exit.Code != 0:
		return decodeError(string(r.Op), stderr.String())
	}
	return nil
}

// lasting returns a context that ends d after ctx.
func lasting(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(d):
			cancel()
		case <-later.Done():
		}
	})
	return later, func() { stop(); cancel() }
}

// framed returns content with its end said in-band. A Read of content that blocks when
// the result is closed is left behind.
func framed(content io.Reader) *io.PipeReader {
	r, w := io.Pipe()
	go func() { w.CloseWithError(framing.Copy(w, content)) }()
	return r
}

// A sink takes what a process writes, and never fails itself.
type sink struct {
	w      io.Writer
	failed func() // is called when w has
	err    error
}

func (s *sink) Write(p []byte) (int, error) {
	if s.w != nil && s.err == nil {
		if _, s.err = s.w.Write(p); s.err != nil {
			s.failed()
		}
	}
	return len(p), nil
}

// capped keeps the beginning of what is written to it.
type capped struct{ bytes.Buffer }

func (b *capped) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxError-b.Len())])
	return len(p), nil
}
