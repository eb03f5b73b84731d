package sandbox

import (
	"context"
	"io"
	"time"
)

// A Command says what to run. It is plain data: it may be copied, and is not
// changed. Exactly one of Shell and Argv must be set.
type Command struct {
	// Shell is text for the sandbox's sh, at most 1 MiB. A program that sh does not find
	// is a command that completes with exit code 127; with Argv, the start fails.
	Shell string `json:"shell,omitempty"`

	// Argv is the program and its arguments. A name without a slash is looked
	// up in the PATH of the command's environment.
	Argv []string `json:"argv,omitempty"`

	// Dir is the working directory. Empty is the sandbox's start directory, and
	// a relative one is below it. It is not created.
	Dir string `json:"dir,omitempty"`

	// Env is added to the environment, and wins over what the sandbox has. A variable
	// may have 128 KiB with its name, and all that a program is given 1.9 MiB, as
	// Linux has it.
	Env map[string]string `json:"env,omitempty"`

	// User is the user to run as, a name or a number; empty is the sandbox's.
	User string `json:"user,omitempty"`

	// Stdin is streamed to the command, its end too; nil is an empty input. A
	// command that does not read it is no error. A Read in progress when the
	// command ends is not waited for. A Read that fails or panics ends the input,
	// and Execution.StdinErr says why.
	Stdin io.Reader `json:"-"`

	// Stdout and Stderr receive a live copy of the command's output: exactly, and all
	// of it, whatever the record stores. Nil receives none. One goroutine writes to
	// both in the order of the output, so they may be the same writer. The first Write
	// may come before Start returns; the last one has returned when the execution is
	// over (Exec.Wait, Exec.Done).
	//
	// A Write that blocks holds the command once 256 KiB wait for it. When the execution
	// was told to end, by Timeout, a context, Cancel or Close, the writers have 5 s from
	// the end of the command to take the rest; a Write that does not return by then is
	// left behind. A Write that fails, panics or is short is that writer's last: the
	// command and the other writer go on. Execution.OutputErr says why a writer did not
	// receive all. A Write must not wait for its own execution, as Exec.Wait and
	// Exec.Cancel do. When Key answers the start with an earlier execution, nothing is
	// copied.
	Stdout io.Writer `json:"-"`
	Stderr io.Writer `json:"-"`

	// OpenStdin keeps the input open, after what Stdin gives, for
	// Exec.WriteStdin, until Exec.CloseStdin. It must be said at the start: a program
	// that reads an open input waits until somebody writes or closes it, where
	// otherwise it sees the end at once.
	OpenStdin bool `json:"open_stdin,omitempty"`

	// Terminal runs the command on a terminal of that size, where the backend
	// has terminals (Info.Backend.Terminal): else the start is an error that
	// wraps errors.ErrUnsupported. All it prints is stdout, with CRLF for a
	// newline, as terminals have it. Its input is kept open as by OpenStdin; see
	// Exec.CloseStdin for its end. Nil is no terminal.
	Terminal *TerminalSize `json:"terminal,omitempty"`

	// Timeout bounds the whole execution, from the start of the command to the
	// end that Wait asks for. 0 is no bound; a negative one is refused.
	Timeout time.Duration `json:"timeout_ns,omitempty"`

	// Grace is how long a kill waits between a SIGTERM to the process group and
	// the end of everything. 0 sends no SIGTERM; a negative one is refused.
	Grace time.Duration `json:"grace_ns,omitempty"`

	// Wait says when the execution is over.
	Wait WaitMode `json:"wait,omitempty"`

	// MaxOutput is how many bytes of each output stream the record stores, from
	// the first on. 0 is 1 MiB; negative stores none. Live readers get
	// everything.
	MaxOutput int `json:"max_output,omitempty"`

	// MaxTail is how many of the last bytes of each stream the record stores
	// beyond MaxOutput. 0 and negative store none.
	MaxTail int `json:"max_tail,omitempty"`

	// Key makes the start idempotent: while the sandbox remembers an execution
	// of the same key, running or recorded, a start answers with that one instead
	// of a second run, whatever its command was. Empty is no key.
	Key string `json:"key,omitempty"`
}

// A WaitMode says when an execution is over.
type WaitMode int

const (
	// WaitOutput, the default: when the command has exited and its output is
	// over, because nothing that it started still holds it open. So
	// "sleep 5 & echo hi" takes five seconds.
	WaitOutput WaitMode = iota

	// WaitExit: when the command itself exits. What it left running stays in
	// the sandbox, and its later output is dropped.
	WaitExit
)

var waitModes = []string{"output", "exit"}

// MarshalText returns "output" or "exit".
func (m WaitMode) MarshalText() ([]byte, error) { return marshalWord(int(m), waitModes) }

// UnmarshalText reads what MarshalText returns.
func (m *WaitMode) UnmarshalText(text []byte) error { return unmarshalWord((*int)(m), text, waitModes) }

// An Exec is the handle of one started command. Its methods may be called
// concurrently, also after the command has ended.
//
// Only this package implements Exec. To decorate one, embed it.
type Exec interface {
	// ID returns the execution's id, "exec_" and 26 letters and digits.
	ID() string

	// Wait blocks until the execution is over and returns its final record. The
	// context covers the waiting only: when it ends, Wait returns its error and
	// the execution goes on.
	Wait(ctx context.Context) (*Execution, error)

	// Done is closed when the execution is over and its record is final.
	Done() <-chan struct{}

	// Execution returns the record as it is now. The caller may keep it.
	Execution() *Execution

	// Stream opens a reader of the output, which must be closed. It starts at
	// the given offsets: the zero value replays from the beginning. Bytes that
	// are no longer stored are reported as a gap. A negative offset, or one past
	// the stream's current end, is an *InvalidError.
	Stream(from Offsets) (Stream, error)

	// Reader opens an io.Reader of one output stream at an offset; 0 is its beginning.
	// It must be closed. It follows the stream live and holds the command as a Stream
	// does, but not for what comes on the other stream. Read returns io.EOF after the
	// last byte of an execution that is over, the record's Err when the outcome is
	// unknown, ctx's error when ctx ends, and an error that wraps ErrClosed after
	// Close. Where bytes are no longer stored, one Read returns a *GapError and the
	// next goes on after them. Read is for one goroutine; Close may be called from
	// another.
	Reader(ctx context.Context, s StreamID, from int64) (io.ReadCloser, error)

	// Since returns what is stored of the output from those offsets on, in order, and
	// the offsets to pass next time. It neither waits nor holds the command, and returns
	// no chunks when there is nothing new. When the execution was over before the call,
	// nothing will follow. The caller may keep the chunks, but not modify their Data.
	// The errors are those of Stream.
	//
	// Nothing beyond Command.MaxOutput is stored without a Command.MaxTail: Since returns
	// it as gaps, however often it is called. Set MaxTail to what a command may write
	// between two calls.
	Since(from Offsets) (chunks []Chunk, next Offsets, err error)

	// WriteStdin writes to the command's input, which Command.OpenStdin has kept
	// open. It returns when the command's side has taken all of p, or with an
	// error: ctx's, io.ErrClosedPipe after CloseStdin, or one that wraps
	// os.ErrProcessDone when the execution is over. Writes that are made at once
	// are not mixed.
	WriteStdin(ctx context.Context, p []byte) (int, error)

	// CloseStdin ends the command's input after what was written. It waits for writes
	// in progress, until ctx ends, and may be called again. On a terminal it types the
	// terminal's eof character. One from which a program reads keys instead of lines
	// (raw mode, or any other without ICANON), or that has no eof character, is hung
	// up: its programs get SIGHUP, and what they print afterwards is lost.
	CloseStdin(ctx context.Context) error

	// Signal sends s to the command's process group. The error wraps
	// os.ErrProcessDone when the command has ended. When ctx ends first, Signal returns
	// its error, and the signal may still be sent. A backend that does not answer is
	// given up after 12 s.
	Signal(ctx context.Context, s Signal) error

	// Resize changes the size of the command's terminal. Its errors and bounds are
	// those of Signal.
	Resize(ctx context.Context, size TerminalSize) error

	// Cancel kills the command and everything that it started, and returns when
	// all is gone: nil, or a *SurvivorsError that names what is not, or an error
	// that wraps ErrLost when that could not be found out. It says so too when
	// something else has ended the command, such as its timeout. The record is then
	// final, with status cancelled unless the execution was told to end, or was
	// over, before. The context covers the waiting only: when it ends, Cancel
	// returns its error and the kill goes on, also when it had ended before the call.
	// Cancel may be called again.
	Cancel(ctx context.Context) error

	sealed()
}
