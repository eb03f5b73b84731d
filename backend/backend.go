// Package backend is the contract between package sandbox and the places where
// commands run.
//
// A backend does the least that only it can do: make a place, start a process
// there, move its bytes, kill all of it, and say truthfully how it ended.
// Timeouts, cancellation, output caps, records and status are decided once, in
// package sandbox, so no backend can get them wrong.
//
// To add a backend, implement the three interfaces of this file and hold the
// result to package backendtest, which checks every rule written here. Package pump
// drains the pipes of commands, for a backend that has them.
//
// A Backend, Instance or Process may be wrapped to change what some methods do. The
// wrapper must embed none of the optional interfaces that it does not keep: package
// sandbox asks for them (Filer, Dialer, Listener, Resizer, Recoverer) by type, and refuses at
// the call a wrapper that hides what Info promises.
package backend

import (
	"context"
	"io"
	"time"
)

// A Backend makes sandboxes. Its methods may be called concurrently.
type Backend interface {
	// Info says what the backend is and what it promises. It does no work. It is
	// constant, except for what a backend learns from its sandboxes, such as what their
	// nodes' kernels support: that is known when Create returns.
	Info() Info

	// Create makes a sandbox, and in it the start directory, empty or as the image
	// has it, where the commands' user may write. Whatever a command does to that
	// directory, the next one finds it there. The context covers the creation only.
	// A setting of cfg that the backend cannot honour is an error that wraps
	// errors.ErrUnsupported; none is ignored. On an error nothing is left behind.
	// The backend does not keep cfg.
	Create(ctx context.Context, cfg *Config) (Instance, error)

	// Close releases what the backend itself holds: helper processes, clients,
	// goroutines. Instances still alive are gone from then on, and are destroyed
	// first. A closed backend answers Create with an error. Close may be called again.
	Close(ctx context.Context) error
}

// An Instance is one sandbox. Its methods may be called concurrently.
type Instance interface {
	// Start starts one command, and returns either a Process or an error. A command
	// that cannot be started is a *StartError. When the sandbox is gone or destroyed
	// and the command was not started, the error wraps ErrGone.
	//
	// The context covers the starting only. When it ends first, Start kills what it
	// had begun, and returns within 10 s. It returns the context's own error, as
	// ctx.Err does, only when it knows that nothing of the command runs, and a
	// *SurvivorsError when something is left.
	//
	// Any other error means that the outcome is unknown: the command may have run,
	// or run still.
	Start(ctx context.Context, spec *Spec) (Process, error)

	// Gone is closed when the sandbox has died without Destroy being called, or
	// its backend is closed.
	Gone() <-chan struct{}

	// Destroy kills everything in the sandbox and removes it. It waits for
	// both within ctx. The processes' Exited and OutputOver are closed after it; an
	// Exit that it has made unknown is an error. After an error it may be called
	// again; after success it does nothing.
	Destroy(ctx context.Context) error
}

// A Process is one started command and everything the command started. Its
// methods may be called concurrently.
type Process interface {
	// Exited is closed when the command itself, not what it left running, has
	// ended, and every byte that was then in its pipes has been written to the
	// sinks; or when it is known that the outcome cannot be found out.
	Exited() <-chan struct{}

	// Exit says how the command ended. It waits for Exited. An error means that
	// the outcome could not be found out.
	Exit() (Exit, error)

	// OutputOver is closed when both output streams have reached their end, or
	// nothing of the command is left, whichever comes first. It is closed after
	// the last byte has been written to a sink and never before Exited.
	OutputOver() <-chan struct{}

	// DiscardOutput makes the command's further output go nowhere, without
	// blocking the writer and without a SIGPIPE for it. It waits for a Write of a
	// sink that is in progress: the caller releases one that blocks. When
	// DiscardOutput has returned no sink is called again.
	DiscardOutput()

	// Signal sends s to the command's process group. It is an error that wraps
	// os.ErrProcessDone when the command has ended. When ctx ends first, Signal
	// returns its error within 1 s, and the signal may still be sent; a ctx that has
	// already ended sends none.
	Signal(ctx context.Context, s Signal) error

	// Kill ends the command and all that it started, however detached, and
	// nothing else. It returns nil when it has seen that nothing is left, and a
	// *SurvivorsError when something is after 10 s; a process that has ended and that
	// nobody has waited for is not left. Bytes in the pipes at that
	// time have been written to the sinks; neither a pipe's end nor anybody
	// else holding one is waited for. A Write of a sink that is in progress is
	// waited for: the caller releases one that blocks. After Kill no sink is called
	// again, and Exited and OutputOver are closed. Kill of a command that left
	// nothing behind does nothing. It may be called again. It has no context, since
	// none that ends may leave a kill half done.
	Kill() error
}

// A Spec is one command as a backend starts it, validated and complete. The command
// has its three streams and no other descriptor, also none that the service has
// inherited.
type Spec struct {
	// Shell is text for sh, which has "sh" as its $0, or empty. It may begin with a
	// dash, and be of up to 1 MiB, where Linux takes arguments of up to 128 KiB. Exactly
	// one of Shell and Argv is set.
	Shell string

	// Argv is the program and its arguments. A name without a slash is looked
	// up in the PATH of the command's own environment.
	Argv []string

	// Dir is the working directory; empty is the sandbox's start directory, and
	// a relative one is below it.
	Dir string

	// Env is KEY=VALUE, no key twice: the sandbox's and the command's. It comes
	// after what the backend itself provides: at least PATH, HOME, which is the
	// start directory, USER, LOGNAME, LANG and TMPDIR, and nothing of the service's
	// own (see [Spec.Environ]).
	Env []string

	// User is the user to run as; empty is the sandbox's own.
	User string

	// Terminal gives the command a terminal of that size, as its controlling one
	// and as all its three streams; nil gives it none. What it prints arrives at
	// Stdout, and Stderr stays empty. At the end of Stdin the terminal's eof
	// character is typed; a terminal that is not in canonical mode (ICANON), or
	// has no such character, is hung up after the output that is there now.
	// Nothing that was not written is ever read. TERM is set, to xterm-256color
	// where Env does not say it. What still holds the terminal when the
	// execution is over is sent SIGHUP. It is only set where Info.Terminal is.
	Terminal *TerminalSize

	// Stdin is streamed to the command, its end too; nil is an empty input. A
	// command that ends without reading it is no error, and neither is a Read
	// that fails: the input ends there. A Read in progress when the command
	// ends is not waited for.
	Stdin io.Reader

	// Stdout and Stderr take the output as it comes, each from one goroutine at
	// a time. A Write that blocks holds the command back. They do not retain
	// the slice and never fail.
	Stdout, Stderr io.Writer
}

// An Exit says how a command ended.
type Exit struct {
	// Code is the exit code; 0 when a signal ended the command.
	Code int

	// Signal is the signal that ended the command; 0 when it exited.
	Signal Signal

	// OOMKilled is set when the kernel killed the command itself for memory.
	// It is never set where Info.OOM is false.
	OOMKilled bool

	// Usage is what the command cost; nil where it is unknown.
	Usage *Usage
}

// Usage is what a command and the processes it waited for have cost.
type Usage struct {
	UserTime   time.Duration `json:"user_ns"`
	SystemTime time.Duration `json:"system_ns"`

	// MaxRSS is the largest resident set of any one process, in bytes. Its floor
	// is the size of the process that forked the command.
	MaxRSS int64 `json:"max_rss_bytes"`

	// OOMKills counts the processes that the kernel killed for memory in the
	// sandbox while the command ran; 0 where Info.OOM is false.
	OOMKills int `json:"oom_kills"`
}
