package files

import (
	"bufio"
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// A Client has files worked on by processes of a sandbox, as its user. A process does one
// operation after the other: to start one takes several times as long as most of them. It
// is kept for quietTime after its last, like a supervisor, and is a command like any other:
// what ends the sandbox's commands ends it. So a sandbox has one Client for all of its
// operations. Its methods may be called concurrently.
type Client struct {
	startCommand func(context.Context, *backend.Spec) (backend.Process, error)
	program      []string

	mu     sync.Mutex // guards what follows
	closed bool
	idle   []*helper // the last is used first
	timer  *time.Timer
}

// NewClient returns a Client of a sandbox, in which start starts a command. Program is
// the command line that runs Main there.
func NewClient(start func(context.Context, *backend.Spec) (backend.Process, error), program []string) *Client {
	return &Client{startCommand: start, program: program}
}

const (
	// maxError bounds what is read of an error, and maxInfo what is read of one
	// file's line: names are at most 4 KiB, quoted.
	maxError = 64 << 10
	maxInfo  = 64 << 10

	// maxIdle is how many processes are kept that have nothing to do, for quietTime.
	maxIdle   = 4
	quietTime = 10 * time.Second
)

var _ backend.Filer = (*Client)(nil)

// File implements [backend.Filer]. Names lead everywhere; relative ones begin in the
// directory in which the processes start.
func (c *Client) File(ctx context.Context, r *backend.FileRequest) error { return c.file(ctx, "", r) }

// Below returns the files below the directory root, out of which no name leads.
func (c *Client) Below(root string) backend.Filer { return below{c, root} }

type below struct {
	client *Client
	root   string
}

func (b below) File(ctx context.Context, r *backend.FileRequest) error {
	return b.client.file(ctx, b.root, r)
}

// Close ends the processes that have nothing to do, and has none kept from now on.
func (c *Client) Close() {
	c.mu.Lock()
	idle := c.idle
	c.idle, c.closed = nil, true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	for _, h := range idle {
		h.end()
	}
}

func (c *Client) file(ctx context.Context, root string, r *backend.FileRequest) error {
	if r.Found == nil {
		return c.do(ctx, root, r, r.Output)
	}
	ctx, cancel := context.WithCancel(ctx)
	lines, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) }) // Found may take its time
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer stop()
		w.CloseWithError(c.do(ctx, root, r, w))
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
func (c *Client) do(ctx context.Context, root string, r *backend.FileRequest, out io.Writer) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := c.take(ctx, r)
		if err != nil {
			return err
		}
		err = h.do(ctx, root, r, out)
		switch {
		case h.reusable:
			c.keep(h)
		case h.used && !h.begun():
			continue // a command may have ended or stopped it while it had nothing to do
		}
		return err
	}
}

// take returns a process that has nothing to do.
func (c *Client) take(ctx context.Context, r *backend.FileRequest) (*helper, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := len(c.idle); n > 0; n = len(c.idle) {
		h := c.idle[n-1]
		c.idle = slices.Delete(c.idle, n-1, n)
		if !h.ended() {
			return h, nil
		}
	}
	c.mu.Unlock()
	defer c.mu.Lock()
	return c.start(ctx, r)
}

// keep takes a process that has nothing to do.
func (c *Client) keep(h *helper) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) == maxIdle {
		go h.end()
		return
	}
	h.idleSince = time.Now()
	c.idle = append(c.idle, h)
	if c.timer == nil {
		c.timer = time.AfterFunc(quietTime, c.trim)
	} else if len(c.idle) == 1 {
		c.timer.Reset(quietTime)
	}
}

// trim ends the processes that have had nothing to do for long. The first is idle for
// longest.
func (c *Client) trim() {
	c.mu.Lock()
	var quiet []*helper
	for len(c.idle) > 0 && !c.closed {
		left := quietTime - time.Since(c.idle[0].idleSince)
		if left > 0 {
			c.timer.Reset(left)
			break
		}
		quiet = append(quiet, c.idle[0])
		c.idle = slices.Delete(c.idle, 0, 1)
	}
	c.mu.Unlock()
	for _, h := range quiet {
		h.end()
	}
}
