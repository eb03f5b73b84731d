package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/internal/text"
)

// handle returns the execution whose handle the path has. A sandbox is not made for
// it.
func (c *call) handle() (sandbox.Exec, error) {
	unknown := &Error{Status: http.StatusNotFound, Message: "there is no execution of that handle"}
	key, err := c.key()
	if err != nil {
		return nil, err
	}
	sb, err := c.api.manager.Get(key)
	if errors.Is(err, sandbox.ErrNotFound) {
		return nil, unknown
	}
	if err != nil {
		return nil, err
	}
	exec, err := sb.Exec(c.path[3])
	if errors.Is(err, sandbox.ErrNotFound) {
		return nil, unknown
	}
	return exec, err
}

// readOn is GET /agents/{agentId}/sandbox/exec/{handle}: what there is from the
// offsets on, once there is something or the command has exited, or after wait
// seconds.
func readOn(c *call) error {
	q := c.query()
	from := sandbox.Offsets{
		Stdout: q.integer("stdoutOffset", 0, 0, math.MaxInt64),
		Stderr: q.integer("stderrOffset", 0, 0, math.MaxInt64),
	}
	wait := q.seconds("wait")
	if q.err != nil {
		return q.err
	}
	exec, err := c.handle()
	if err != nil {
		return err
	}
	rec := exec.Execution()
	for _, stream := range []struct {
		name        string
		from, total int64
	}{{"stdoutOffset", from.Stdout, rec.Stdout.Total}, {"stderrOffset", from.Stderr, rec.Stderr.Total}} {
		if stream.from > stream.total {
			return invalid(stream.name, fmt.Sprintf("is past the stream's current end, %d", stream.total))
		}
	}
	c.clearWriteDeadline()
	rec, err = c.news(exec, from, wait)
	c.setWriteDeadline()
	if err != nil {
		return err
	}
	if rec.Status != sandbox.Running {
		if err := c.agentFailure(rec); err != nil {
			return err
		}
	}
	c.reply(http.StatusOK, describeForAgent(rec, from))
	return nil
}

// news returns the record of exec once it has something from there on or is final, or
// after a while.
func (c *call) news(exec sandbox.Exec, from sandbox.Offsets, wait time.Duration) (*sandbox.Execution, error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), wait)
	defer cancel()
	for {
		rec := exec.Execution()
		if rec.Status != sandbox.Running || hasNews(rec.Stdout, from.Stdout) || hasNews(rec.Stderr, from.Stderr) || ctx.Err() != nil {
			return rec, nil
		}
		if err := await(ctx, exec, sandbox.Offsets{Stdout: rec.Stdout.Total, Stderr: rec.Stderr.Total}); err != nil {
			return nil, err
		}
	}
}

// hasNews reports whether a whole character is stored from an offset on.
func hasNews(out sandbox.Output, from int64) bool {
	return from < int64(len(out.Head)) && text.Whole(out.Head[from:]) > 0
}

// await waits until exec has written something beyond there or is over, or ctx ends.
func await(ctx context.Context, exec sandbox.Exec, there sandbox.Offsets) error {
	output, err := exec.Stream(there)
	if err != nil {
		return err
	}
	defer output.Close()
	if _, err := output.Next(ctx); err == nil || ctx.Err() != nil {
		return nil
	}
	<-exec.Done()
	return nil
}

// feedForAgent is POST /agents/{agentId}/sandbox/exec/{handle}/stdin.
func feedForAgent(c *call) error {
	exec, err := c.handle()
	if err != nil {
		return err
	}
	n, closed, err := c.feed(exec)
	if err != nil {
		// A part may have been written: it must not be written twice.
		c.w.Header().Set("X-Should-Retry", "false")
		return err
	}
	c.reply(http.StatusOK, struct {
		Bytes  int64 `json:"bytesWritten"`
		Closed bool  `json:"closed"`
	}{n, closed})
	return nil
}

// killForAgent is DELETE /agents/{agentId}/sandbox/exec/{handle}.
func killForAgent(c *call) error {
	exec, err := c.handle()
	if err != nil {
		return err
	}
	rec := c.cancel(exec)
	if err := c.agentFailure(rec); err != nil {
		return err
	}
	c.reply(http.StatusOK, describeForAgent(rec, sandbox.Offsets{}))
	return nil
}
