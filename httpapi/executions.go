package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sandbox-go/sandbox"
)

const (
	defaultTimeoutMS = 60_000
	maxTimeoutMS     = 600_000
)

// execInSandbox is POST /v1/sandboxes/{id}/exec.
func execInSandbox(c *call) error {
	var (
		timeout = defaultTimeoutMS
		stream  bool
		cmd     sandbox.Command
	)
	err := c.decode(map[string]field{
		"command":    intoCommand(&cmd.Shell),
		"timeout_ms": intoInteger(&timeout, 1, maxTimeoutMS),
		"cwd":        intoString(&cmd.Dir),
		"env":        intoStrings(&cmd.Env),
		"stream":     intoBool(&stream),
	})
	if err != nil {
		return err
	}
	if cmd.Shell == "" {
		return missing("command")
	}
	cmd.Timeout = time.Duration(timeout) * time.Millisecond
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	if err := c.authorize(&cmd); err != nil {
		return err
	}
	c.lift()
	if stream {
		return c.follow(sb, cmd)
	}
	// The document ends a command with its client only where it is streamed.
	rec, err := c.run(context.WithoutCancel(c.r.Context()), sb, cmd)
	c.limit()
	if err != nil {
		return err
	}
	if err := c.api.failure(rec); err != nil {
		return err
	}
	c.reply(http.StatusOK, rec)
	return nil
}

// listExecutions is GET /v1/sandboxes/{id}/executions. The records are encoded one
// by one: together they may be large.
func listExecutions(c *call) error {
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(http.StatusOK)
	fmt.Fprint(c.w, `{"object":"list","data":[`)
	enc := encoder(c.w)
	for i, exec := range sb.Execs() {
		if i > 0 {
			fmt.Fprint(c.w, ",")
		}
		if err := enc.Encode(exec.Execution()); err != nil {
			return err
		}
	}
	fmt.Fprintln(c.w, `],"has_more":false}`)
	return nil
}

// getExecution is GET /v1/sandboxes/{id}/executions/{exec_id}.
func getExecution(c *call) error {
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	exec, err := sb.Exec(c.path[2])
	if errors.Is(err, sandbox.ErrNotFound) {
		return &Error{Status: http.StatusNotFound, Message: "No execution with that id", err: err}
	}
	if err != nil {
		return err
	}
	c.reply(http.StatusOK, exec.Execution())
	return nil
}
