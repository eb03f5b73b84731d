package files

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/framing"
)

// A helper is a process that runs Main. One goroutine has it at a time.
type helper struct {
	process   backend.Process
	in        *io.PipeWriter // its stdin
	stderr    capped
	used      bool // it has been kept after an operation
	reusable  bool // it waits for the next operation
	idleSince time.Time

	mu    sync.Mutex // guards reply
	reply *reply     // to the present operation
}

const (
	// tidyTime is how long a process whose input was broken off may take to remove what
	// it has begun. A busy machine needs more than a second.
	tidyTime = 5 * time.Second

	// A command may have stopped the process, which is told to go on after stoppedTime,
	// and every goOnTime. Where one that was kept has not begun by beginTime, another
	// process is asked.
	stoppedTime = 200 * time.Millisecond
	goOnTime    = time.Second
	beginTime   = 5 * time.Second
)

// start starts a process for r.
func (c *Client) start(ctx context.Context, r *backend.FileRequest) (*helper, error) {
	in, w := io.Pipe()
	h := &helper{in: w}
	p, err := c.startCommand(ctx, &backend.Spec{Argv: c.program, Stdin: in, Stdout: h, Stderr: &h.stderr})
	if err != nil {
		w.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%s %s: %w", r.Op, r.Name, err)
	}
	h.process = p
	go func() {
		<-p.Exited()
		w.Close() // ends whoever feeds it
	}()
	return h, nil
}

// Write takes what the process writes to stdout, and never fails.
func (h *helper) Write(p []byte) (int, error) {
	h.mu.Lock()
	r := h.reply
	h.mu.Unlock()
	if r != nil {
		r.take(p)
	}
	return len(p), nil
}

// ended reports whether the process is known to have ended.
func (h *helper) ended() bool { return isClosed(h.process.Exited()) }

// begun reports whether the present operation has begun.
func (h *helper) begun() bool { return isClosed(h.reply.begun) }

// end ends the process, and waits for that.
func (h *helper) end() {
	h.in.Close()
	h.process.Kill()
}

// do has the process do r, and sets reusable. Of one that was kept and has not begun, it
// returns when nothing is left.
func (h *helper) do(ctx context.Context, root string, r *backend.FileRequest, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer := newReply(out, cancel)
	h.mu.Lock()
	h.reply = answer
	h.mu.Unlock()
	h.used, h.reusable = h.reusable, false
	sent := make(chan error, 1)
	go func() { sent <- h.send(root, r, answer) }()
	if !h.await(ctx) {
		h.giveUp(r)
		return cmp.Or(answer.failed(), ctx.Err())
	}
	if !isClosed(answer.done) {
		if err := cmp.Or(answer.failed(), ctx.Err()); err != nil {
			return err
		}
		return h.fate(r)
	}
	if answer.more() {
		h.reusable = <-sent == nil // all has been taken, so that it is over soon
	}
	if !h.reusable {
		h.end()
	}
	if err := answer.failed(); err != nil {
		return err
	}
	if text := answer.problem(); text != "" {
		return decodeError(string(r.Op), text)
	}
	return nil
}

// send sends r, and its content when the process has begun, so that another can be asked
// if it does not.
func (h *helper) send(root string, r *backend.FileRequest, answer *reply) error {
	var request bytes.Buffer
	framing.Copy(&request, strings.NewReader(encodeCall(root, r)))
	if _, err := h.in.Write(request.Bytes()); err != nil || r.Content == nil {
		return err
	}
	select {
	case <-answer.begun:
		err := framing.Copy(h.in, r.Content)
		if err != nil {
			h.in.CloseWithError(framing.ErrIncomplete)
		}
		return err
	case <-h.process.Exited():
		return io.ErrClosedPipe
	}
}

// await waits until the operation is done or the process has ended, and reports false when
// ctx ends before.
func (h *helper) await(ctx context.Context) bool {
	asked := time.Now()
	look := time.NewTimer(stoppedTime)
	defer look.Stop()
	for {
		select {
		case <-h.reply.done:
			return true
		case <-h.process.OutputOver():
			return true
		case <-ctx.Done():
			return false
		case <-look.C:
		}
		if h.used && !h.begun() && time.Since(asked) > beginTime {
			h.end()
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, goOnTime)
		h.process.Signal(bounded, backend.SIGCONT)
		cancel()
		look.Reset(goOnTime)
	}
}

// giveUp ends the process in the middle of r. One that has content to read finds that
// broken off, and removes what it has begun.
func (h *helper) giveUp(r *backend.FileRequest) {
	h.in.CloseWithError(framing.ErrIncomplete)
	if r.Content != nil {
		select {
		case <-h.process.OutputOver():
		case <-time.After(tidyTime):
		}
	}
	h.process.Kill()
	<-h.process.OutputOver()
}

// fate says why the process has ended in the middle of r.
func (h *helper) fate(r *backend.FileRequest) error {
	exit, err := h.process.Exit()
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", r.Op, r.Name, err)
	case exit.Signal != 0:
		return fmt.Errorf("%s %s: the agent was ended by %v", r.Op, r.Name, exit.Signal)
	}
	return fmt.Errorf("%s %s: the agent says %q", r.Op, r.Name, h.stderr.String())
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// capped keeps the beginning of what is written to it.
type capped struct{ bytes.Buffer }

func (b *capped) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxError-b.Len())])
	return len(p), nil
}
