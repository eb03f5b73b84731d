package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sandbox-go/sandbox/internal/jsonstream"
)

// An Execution is the record of one command: what became of it and what it
// wrote. It is plain data and marshals to the Execution object that the HTTP
// APIs document. It must not be modified.
type Execution struct {
	ID        string
	SandboxID string
	Command   Command // as it was given, without Stdin, Stdout and Stderr
	Status    Status

	// ExitCode is nil while it runs and where no code exists: cancelled and
	// failed. It is 124 after a timeout and 128+n after a signal n.
	ExitCode *int

	// Signal is the signal that ended the command; 0 when none did.
	Signal Signal

	// OOMKilled is set when the kernel killed the command itself for memory.
	OOMKilled bool

	// Err says why the status is failed: a *StartError, or an error that wraps
	// ErrLost. After a kill it is a *SurvivorsError when processes survived it, or
	// wraps ErrLost when the kill could not be verified. Otherwise it is nil.
	Err error

	// StdinErr says why Command.Stdin could not be read to its end, an error of
	// its own or a panic: the command's input has ended there. Otherwise it is nil,
	// also when the command did not read all.
	StdinErr error

	// OutputErr says why Command.Stdout or Stderr has not got all of the output: its
	// own error, a panic, io.ErrShortWrite, a *GapError when a kill did not wait for
	// it, or one that wraps os.ErrDeadlineExceeded when it did not take the rest in
	// time. Otherwise it is nil. The record's Stdout and Stderr have it all the same.
	OutputErr error

	Stdout, Stderr Output

	// Usage is what the command cost; nil while it runs and where unknown.
	Usage *Usage

	StartedAt  time.Time
	FinishedAt time.Time // zero while it runs

	// Duration is from start to finish, or to now while it runs, by the
	// monotonic clock.
	Duration time.Duration
}

// Truncated reports whether bytes of either stream are not stored.
func (e *Execution) Truncated() bool { return e.Stdout.Truncated() || e.Stderr.Truncated() }

// An Output is what a record stores of one output stream.
type Output struct {
	// Head is the beginning, at most Command.MaxOutput bytes. Where the stream
	// went on, it ends with a whole UTF-8 character.
	Head []byte

	// Tail is the end, at most Command.MaxTail bytes, without those in Head.
	Tail []byte

	// Total is how many bytes the stream had in all.
	Total int64
}

// String returns what is stored as it is, Head and Tail. Where bytes are missing between
// them, or after Head, it says "[… 1234 bytes cut …]" in their place; programs look
// at Head, Gap and Tail.
func (o Output) String() string {
	if !o.Truncated() {
		return string(o.Head) + string(o.Tail)
	}
	return fmt.Sprintf("%s[… %d bytes cut …]%s", o.Head, o.Gap(), o.Tail)
}

// Truncated reports whether bytes of the stream are neither in Head nor in Tail.
func (o Output) Truncated() bool { return o.Gap() > 0 }

// Gap returns how many bytes are missing between Head and Tail, or after Head where
// there is no Tail.
func (o Output) Gap() int64 { return o.Total - int64(len(o.Head)) - int64(len(o.Tail)) }

// beyondHead reports whether the stream went on after Head.
func (o Output) beyondHead() bool { return o.Total > int64(len(o.Head)) }

// Status says where an execution stands.
type Status string

const (
	Running   Status = "running"   // it has not ended
	Completed Status = "completed" // the command ended by itself, with whatever code
	TimedOut  Status = "timeout"   // it timed out, and was killed
	Cancelled Status = "cancelled" // it was asked to end, and was killed
	Failed    Status = "failed"    // it could not be started, or its outcome is unknown
)

// TimeoutExitCode is the exit code of an execution whose time was up, as
// timeout(1) has it.
const TimeoutExitCode = 124

// MarshalJSON returns the Execution object of the sandboxes API, with a few
// fields more. Output becomes text: what is not UTF-8 is U+FFFD.
func (e *Execution) MarshalJSON() ([]byte, error) {
	var buf bytes.Buffer
	err := e.WriteJSON(&buf)
	return buf.Bytes(), err
}

// WriteJSON writes what MarshalJSON returns to w, in pieces of at most 32 KiB,
// straight from Stdout and Stderr: JSON may be six times as large as these.
func (e *Execution) WriteJSON(w io.Writer) error {
	doc := executionJSON{
		Object:      "execution",
		ID:          e.ID,
		SandboxID:   e.SandboxID,
		Status:      e.Status,
		ExitCode:    e.ExitCode,
		OOMKilled:   e.OOMKilled,
		Stdout:      e.Stdout.Head,
		Stderr:      e.Stderr.Head,
		StdoutTail:  e.Stdout.Tail,
		StderrTail:  e.Stderr.Tail,
		StdoutBytes: e.Stdout.Total,
		StderrBytes: e.Stderr.Total,
		Truncated:   e.Stdout.beyondHead() || e.Stderr.beyondHead(),
		Usage:       e.Usage,
		StartedAt:   e.StartedAt.UTC(),
	}
	if e.Signal != 0 {
		doc.Signal = e.Signal.String()
	}
	if e.Err != nil {
		doc.Error = e.Err.Error()
	}
	if e.StdinErr != nil {
		doc.StdinError = e.StdinErr.Error()
	}
	if e.OutputErr != nil {
		doc.OutputError = e.OutputErr.Error()
	}
	var reason Reason
	if errors.As(e.Err, &reason) {
		doc.Reason = reason
	}
	if e.Status != Running {
		doc.FinishedAt = new(e.FinishedAt.UTC())
		doc.DurationMS = new(e.Duration.Milliseconds())
	}
	return jsonstream.Write(w, doc)
}

// executionJSON is the Execution object. Up to finished_at it is as documented.
type executionJSON struct {
	Object     string          `json:"object"`
	ID         string          `json:"id"`
	SandboxID  string          `json:"sandbox_id"`
	Status     Status          `json:"status"`
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
	Reason      Reason          `json:"reason,omitempty"`
	Usage       *Usage          `json:"usage,omitempty"`
}
