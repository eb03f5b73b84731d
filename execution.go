package sandbox

import (
	"fmt"
	"time"
)

// An Execution is the record of one command: what became of it and what it
// wrote. It is plain data, which must not be modified. Its JSON has all of it, to be
// stored: it unmarshals to an equal record, but for the monotonic clock in its times.
type Execution struct {
	ID        string  `json:"id"`
	SandboxID string  `json:"sandbox_id"`
	Command   Command `json:"command"` // as it was given, without Stdin, Stdout and Stderr
	Status    Status  `json:"status"`

	// ExitCode is nil while it runs and where no code exists: cancelled and
	// failed. It is 124 after a timeout and 128+n after a signal n.
	ExitCode *int `json:"exit_code,omitempty"`

	// Signal is the signal that ended the command; 0 when none did.
	Signal Signal `json:"signal,omitempty"`

	// OOMKilled is set when the kernel killed the command itself for memory.
	OOMKilled bool `json:"oom_killed,omitempty"`

	// Err says why the status is failed: an error that wraps a *StartError, or
	// ErrLost. After a kill it is a *SurvivorsError when processes survived it, or
	// wraps ErrLost when the kill could not be verified. Otherwise it is nil.
	Err error `json:"-"`

	// StdinErr says why Command.Stdin could not be read to its end, an error of
	// its own or a panic: the command's input has ended there. Otherwise it is nil,
	// also when the command did not read all.
	StdinErr error `json:"-"`

	// OutputErr says why Command.Stdout or Stderr has not got all of the output: its
	// own error, a panic, io.ErrShortWrite, a *GapError when a kill did not wait for
	// it, or one that wraps os.ErrDeadlineExceeded when it did not take the rest in
	// time. Otherwise it is nil. The record's Stdout and Stderr have it all the same.
	OutputErr error `json:"-"`

	Stdout Output `json:"stdout"`
	Stderr Output `json:"stderr"`

	// Usage is what the command cost; nil while it runs and where unknown.
	Usage *Usage `json:"usage,omitempty"`

	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at,omitzero"` // zero while it runs

	// Duration is from start to finish, or to now while it runs, by the
	// monotonic clock.
	Duration time.Duration `json:"duration_ns"`
}

// Truncated reports whether bytes of either stream are not stored.
func (e *Execution) Truncated() bool { return e.Stdout.Truncated() || e.Stderr.Truncated() }

// An Output is what a record stores of one output stream.
type Output struct {
	// Head is the beginning, at most Command.MaxOutput bytes. Where the stream
	// went on, it ends with a whole UTF-8 character.
	Head []byte `json:"head,omitempty"`

	// Tail is the end, at most Command.MaxTail bytes, without those in Head.
	Tail []byte `json:"tail,omitempty"`

	// Total is how many bytes the stream had in all.
	Total int64 `json:"total"`
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

// Status says where an execution stands.
type Status string

const (
	Running   Status = "running"   // it has not ended
	Completed Status = "completed" // the command ended by itself, with whatever code
	TimedOut  Status = "timeout"   // it timed out, and was killed
	Cancelled Status = "cancelled" // it was asked to end, and was killed
	Failed    Status = "failed"    // it could not be started, or its outcome is unknown
)

// TimeoutExitCode is the exit code of an execution that timed out, as timeout(1)
// has it.
const TimeoutExitCode = 124
