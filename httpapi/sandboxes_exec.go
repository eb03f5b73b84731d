package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/sandbox-go/sandbox"
)

const (
	defaultTimeoutMS = 60_000
	maxTimeoutMS     = 600_000

	// maxBackgroundMS is as long as a sandbox may live.
	maxBackgroundMS = maxMinutes * 60_000
)

// timeoutRange says which timeouts there are.
const timeoutRange = "must be an integer from 1 to 600000, or to 86400000 in the background"

// intoTimeout decodes a timeout in milliseconds, which may still be too long for
// what is not in the background.
func intoTimeout(dst *int) field {
	return func(value json.RawMessage) string {
		problem := intoInteger(dst, 1, maxBackgroundMS)(value)
		if problem != "" && kind(value) == "number" {
			return timeoutRange
		}
		return problem
	}
}

// An execRequest is the body of POST /v1/sandboxes/{id}/exec.
type execRequest struct {
	cmd        sandbox.Command
	timeout    int // milliseconds; 0 is the default
	stream     bool
	encoding   string // of a stream
	background bool
}

// execInSandbox is POST /v1/sandboxes/{id}/exec.
func execInSandbox(c *call) error {
	req, err := c.execRequest()
	if err != nil {
		return err
	}
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	if err := c.authorize(&req.cmd); err != nil {
		return err
	}
	c.clearWriteDeadline()
	switch {
	case req.stream:
		return c.follow(sb, req.cmd, req.encoding)
	case req.background:
		return c.background(sb, req.cmd)
	}
	// The document ends a command with its client only where it is streamed.
	rec, err := c.run(context.WithoutCancel(c.r.Context()), sb, req.cmd)
	c.setWriteDeadline()
	if err != nil {
		return err
	}
	if err := c.api.failure(rec); err != nil {
		return err
	}
	c.reply(http.StatusOK, describeExecution(rec))
	return nil
}

// execRequest reads what is to run, and how it is to be answered.
func (c *call) execRequest() (*execRequest, error) {
	req := &execRequest{}
	err := c.decode(map[string]field{
		"command":    intoCommand(&req.cmd.Shell),
		"timeout_ms": intoTimeout(&req.timeout),
		"cwd":        intoString(&req.cmd.Dir),
		"env":        intoStrings(&req.cmd.Env),
		"stream":     intoBool(&req.stream),
		"encoding":   intoChoice(&req.encoding, asText, asBase64),
		"background": intoBool(&req.background),
		"open_stdin": intoBool(&req.cmd.OpenStdin),
	})
	switch {
	case err != nil:
		return nil, err
	case req.cmd.Shell == "":
		return nil, missing("command")
	case req.stream && req.background:
		return nil, invalid("background", "must not be combined with stream: read it at …/executions/{exec_id}/stream")
	case req.encoding != "" && !req.stream:
		return nil, invalid("encoding", "needs stream: output is text elsewhere")
	case req.cmd.OpenStdin && !req.stream && !req.background:
		return nil, invalid("open_stdin", "needs stream or background: nobody could write to the command before it has ended")
	case req.timeout > maxTimeoutMS && !req.background:
		return nil, invalid("timeout_ms", timeoutRange)
	case req.timeout == 0 && !req.background:
		req.timeout = defaultTimeoutMS
	}
	req.cmd.Timeout = time.Duration(req.timeout) * time.Millisecond
	req.cmd.Key, err = c.idempotencyKey()
	return req, err
}

// maxIdempotencyKey bounds a key, which is kept as long as the record.
const maxIdempotencyKey = 255

// idempotencyKey returns the Idempotency-Key header.
func (c *call) idempotencyKey() (string, error) {
	key := c.r.Header.Get("Idempotency-Key")
	if len(key) > maxIdempotencyKey {
		return "", invalid("Idempotency-Key", fmt.Sprintf("must not be longer than %d bytes", maxIdempotencyKey))
	}
	return key, nil
}

// background starts cmd in sb and answers with its record at once. Only its timeout
// and the end of the sandbox end it.
func (c *call) background(sb sandbox.Sandbox, cmd sandbox.Command) error {
	exec, err := sb.Start(context.WithoutCancel(c.r.Context()), cmd)
	c.setWriteDeadline()
	if err != nil {
		return err
	}
	c.execution = exec.ID()
	rec := exec.Execution()
	if err := c.api.failure(rec); err != nil {
		return err
	}
	c.reply(http.StatusAccepted, describeExecution(rec))
	return nil
}
