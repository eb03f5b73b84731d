package httpapi

import (
	"errors"
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
	if rec.Err != nil {
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
