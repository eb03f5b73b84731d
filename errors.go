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
	ErrGone = errors.New("sandbox is gone")

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

// What the driver contract and this package share.
type (
	Config         = backend.Config
	Limits         = backend.Limits
	Mount          = backend.Mount
	Files          = backend.Files
	FileInfo       = backend.FileInfo
	TerminalSize   = backend.TerminalSize
	Signal         = backend.Signal
	Usage          = backend.Usage
	Reason         = backend.Reason
	StartError     = backend.StartError
	SurvivorsError = backend.SurvivorsError
)

func invalidf(field, format string, args ...any) error {
	return &InvalidError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
