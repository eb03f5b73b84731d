package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/internal/jsonstream"
)

// An executionObject is the Execution object of the sandboxes API. Output becomes text:
// what is not UTF-8 is U+FFFD.
type executionObject struct {
	Object     string          `json:"object"`
	ID         string          `json:"id"`
	SandboxID  string          `json:"sandbox_id"`
	Status     sandbox.Status  `json:"status"`
	ExitCode   *int            `json:"exit_code"`
	Stdout     jsonstream.Text `json:"stdout"`
	Stderr     jsonstream.Text `json:"stderr"`
	Truncated  bool            `json:"truncated"`
	DurationMS *int64          `json:"duration_ms"`
	StartedAt  time.Time       `json:"started_at"`
	FinishedAt *time.Time      `json:"finished_at"`

	StdoutTail  jsonstream.Text `json:"stdout_tail,omitempty"`
	StderrTail  jsonstream.Text `json:"stderr_tail,omitempty"`
	StdoutBytes int64           `json:"stdout_bytes"`
	StderrBytes int64           `json:"stderr_bytes"`
	Signal      string          `json:"signal,omitempty"`
	OOMKilled   bool            `json:"oom_killed,omitempty"`
	Error       string          `json:"error,omitempty"`
	StdinError  string          `json:"stdin_error,omitempty"`
	OutputError string          `json:"output_error,omitempty"`
	Reason      sandbox.Reason  `json:"reason,omitempty"`
	Usage       *sandbox.Usage  `json:"usage,omitempty"`
}

func describeExecution(rec *sandbox.Execution) *executionObject {
	doc := &executionObject{
		Object:      "execution",
		ID:          rec.ID,
		SandboxID:   rec.SandboxID,
		Status:      rec.Status,
		ExitCode:    rec.ExitCode,
		OOMKilled:   rec.OOMKilled,
		Stdout:      rec.Stdout.Head,
		Stderr:      rec.Stderr.Head,
		StdoutTail:  rec.Stdout.Tail,
		StderrTail:  rec.Stderr.Tail,
		StdoutBytes: rec.Stdout.Total,
		StderrBytes: rec.Stderr.Total,
		Truncated:   cutAtHead(rec),
		Usage:       rec.Usage,
		StartedAt:   rec.StartedAt.UTC(),
	}
	if rec.Signal != 0 {
		doc.Signal = rec.Signal.String()
	}
	var start *sandbox.StartError
	switch {
	case errors.As(rec.Err, &start): // what it wraps besides is the service's
		doc.Error = start.Error()
	case rec.Err != nil:
		doc.Error = rec.Err.Error()
	}
	if rec.StdinErr != nil {
		doc.StdinError = rec.StdinErr.Error()
	}
	if rec.OutputErr != nil {
		doc.OutputError = rec.OutputErr.Error()
	}
	var reason sandbox.Reason
	if errors.As(rec.Err, &reason) {
		doc.Reason = reason
	}
	if rec.Status != sandbox.Running {
		doc.FinishedAt = new(rec.FinishedAt.UTC())
		doc.DurationMS = new(rec.Duration.Milliseconds())
	}
	return doc
}

// listExecutions is GET /v1/sandboxes/{id}/executions. The records are encoded one
// by one: together they may be large.
func listExecutions(c *call) error {
	p, err := c.page()
	if err != nil {
		return err
	}
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	execs, more, err := cut(p, sb.Execs())
	if err != nil {
		return err
	}
	c.begin(http.StatusOK)
	fmt.Fprint(c.w, `{"object":"list","data":[`)
	for i, exec := range execs {
		if i > 0 {
			fmt.Fprint(c.w, ",")
		}
		if c.sendJSON(describeExecution(exec.Execution())); c.w.failed != nil {
			return nil
		}
	}
	fmt.Fprintf(c.w, "],\"has_more\":%t}", more)
	c.finish()
	return nil
}

// exec returns the execution that the path names.
func (c *call) exec() (sandbox.Exec, error) {
	sb, err := c.sandbox()
	if err != nil {
		return nil, err
	}
	exec, err := sb.Exec(c.path[2])
	if errors.Is(err, sandbox.ErrNotFound) {
		return nil, &Error{Status: http.StatusNotFound, Message: "No execution with that id", err: err}
	}
	return exec, err
}

// getExecution is GET /v1/sandboxes/{id}/executions/{exec_id}.
func getExecution(c *call) error {
	exec, err := c.exec()
	if err != nil {
		return err
	}
	c.reply(http.StatusOK, describeExecution(exec.Execution()))
	return nil
}

// cancelExecution is DELETE /v1/sandboxes/{id}/executions/{exec_id}.
func cancelExecution(c *call) error {
	exec, err := c.exec()
	if err != nil {
		return err
	}
	c.reply(http.StatusOK, describeExecution(c.cancel(exec)))
	return nil
}

// writeStdin is POST /v1/sandboxes/{id}/executions/{exec_id}/stdin.
func writeStdin(c *call) error {
	exec, err := c.exec()
	if err != nil {
		return err
	}
	n, closed, err := c.feed(exec)
	if err != nil {
		return err
	}
	c.reply(http.StatusOK, struct {
		Bytes  int64 `json:"bytes_written"`
		Closed bool  `json:"closed"`
	}{n, closed})
	return nil
}

// signalExecution is POST /v1/sandboxes/{id}/executions/{exec_id}/signal.
func signalExecution(c *call) error {
	var signal sandbox.Signal
	if err := c.decode(map[string]field{"signal": intoSignal(&signal)}); err != nil {
		return err
	}
	if signal == 0 {
		return missing("signal")
	}
	exec, err := c.exec()
	if err != nil {
		return err
	}
	if err := exec.Signal(c.r.Context(), signal); err != nil {
		return over(err)
	}
	c.reply(http.StatusOK, describeExecution(exec.Execution()))
	return nil
}

// maxSignal is the last of Linux's signals.
const maxSignal = 64

// intoSignal decodes a signal: its name, as in "SIGINT", or its number.
func intoSignal(dst *sandbox.Signal) field {
	return func(value json.RawMessage) string {
		if kind(value) == "number" {
			return intoInteger((*int)(dst), 1, maxSignal)(value)
		}
		var name string
		if problem := intoString(&name)(value); problem != "" {
			return problem
		}
		s, err := sandbox.ParseSignal(name)
		if err != nil {
			return err.Error()
		}
		*dst = s
		return ""
	}
}
