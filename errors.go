package sandbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// The errors that callers branch on, with errors.Is.
var (
	// ErrNotFound: there is no such sandbox or execution.
	ErrNotFound = errors.New("not found")

	// ErrExists: there is a sandbox of that name already.
	ErrExists = errors.New("exists already")

	// ErrClosed: the sandbox, or the manager, has been closed.
	ErrClosed = errors.New("closed")

	// ErrGone: the sandbox has died, and nothing can run in it.
	ErrGone = backend.ErrGone

	// ErrLost: the sandbox, or the connection to it, was lost under a running
	// command, whose outcome is therefore unknown.
	ErrLost = errors.New("outcome unknown")

	// ErrLimit: a limit of the manager is reached. The error is a *LimitError.
	ErrLimit = errors.New("limit reached")
)

// An Error says what this package could not do, and to which sandbox.
type Error struct {
	Op      string // "create", "start", "close", …
	Sandbox string // the sandbox's id, or empty
	Err     error
}

// Error returns the operation, the sandbox and the cause.
func (e *Error) Error() string {
	if e.Sandbox == "" {
		return fmt.Sprintf("sandbox: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("sandbox: %s %s: %v", e.Op, e.Sandbox, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// An InvalidError is an input that is refused before anything starts, on every
// backend alike.
type InvalidError struct {
	Field   string // the Go name of the field, as in "Command.Env"
	Problem string // what is wrong, and what to change
}

// Error returns the field and the problem.
func (e *InvalidError) Error() string { return e.Field + ": " + e.Problem }

// A LimitError says which limit of the Manager is reached. It matches ErrLimit.
type LimitError struct {
	Limit string // what is limited, as in "running executions"
	Max   int

	// RetryAfter is when trying again makes sense, or 0 when waiting does not
	// help.
	RetryAfter time.Duration
}

// Error returns the limit and its value.
func (e *LimitError) Error() string { return fmt.Sprintf("limit of %d %s reached", e.Max, e.Limit) }

// Is reports whether target is ErrLimit.
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// What the driver contract and this package share. Their constants, such as
// SIGTERM and NotFound, are in package backend.
type (
	// Config is what a sandbox is made of: its image, environment, limits,
	// network, mounts, labels and lifetime. See backend.Config.
	Config = backend.Config

	// Limits bound a sandbox: memory, processors, processes. See backend.Limits.
	Limits = backend.Limits

	// Mount is a directory of the host in a sandbox. See backend.Mount.
	Mount = backend.Mount

	// Files reaches a sandbox's files. See backend.Files.
	Files = backend.Files

	// FileInfo describes a file. See backend.FileInfo.
	FileInfo = backend.FileInfo

	// TerminalSize is rows and columns. See backend.TerminalSize.
	TerminalSize = backend.TerminalSize

	// Signal is a signal's number as Linux has it; backend.SIGTERM is one.
	Signal = backend.Signal

	// Usage is what a command has cost. See backend.Usage.
	Usage = backend.Usage

	// Reason says why a command could not be started; backend.NotFound is one.
	Reason = backend.Reason

	// StartError is a start that failed. See backend.StartError.
	StartError = backend.StartError

	// SurvivorsError names what a kill could not end. See backend.SurvivorsError.
	SurvivorsError = backend.SurvivorsError
)

func invalidf(field, format string, args ...any) error {
	return &InvalidError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
