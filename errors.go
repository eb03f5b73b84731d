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

	// ErrRefused: nobody in the sandbox listens on that port.
	ErrRefused = backend.ErrRefused

	// ErrLimit: a limit of the manager is reached. The error is a *LimitError.
	ErrLimit = errors.New("limit reached")
)

// An Error says what this package could not do, and to which sandbox or execution.
type Error struct {
	Op      string // "create", "start", "signal", …
	Sandbox string // the sandbox's id, or empty
	Exec    string // the execution's id, or empty where it is about a sandbox
	Err     error  // the cause
}

// Error returns the operation, the execution, the sandbox and the cause.
func (e *Error) Error() string {
	what := e.Op
	if e.Exec != "" {
		what += " of " + e.Exec
	}
	if e.Sandbox != "" {
		what += " " + e.Sandbox
	}
	return fmt.Sprintf("sandbox: %s: %v", what, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// An InvalidError is an input that is refused before anything starts, on every
// backend alike.
type InvalidError struct {
	Field   Field
	Problem string // what is wrong, and what to change
}

// Error returns the field and the problem.
func (e *InvalidError) Error() string { return string(e.Field) + ": " + e.Problem }

// A Field is the Go name of what an [InvalidError] refuses: a field of a struct, or a
// parameter.
type Field string

const (
	FieldCommand   Field = "Command"
	FieldShell     Field = "Command.Shell"
	FieldArgv      Field = "Command.Argv"
	FieldDir       Field = "Command.Dir"
	FieldEnv       Field = "Command.Env"
	FieldUser      Field = "Command.User"
	FieldOpenStdin Field = "Command.OpenStdin"
	FieldTerminal  Field = "Command.Terminal"
	FieldTimeout   Field = "Command.Timeout"
	FieldGrace     Field = "Command.Grace"
	FieldWait      Field = "Command.Wait"

	FieldConfigImage    Field = "Config.Image"
	FieldConfigEnv      Field = "Config.Env"
	FieldConfigUser     Field = "Config.User"
	FieldConfigNetwork  Field = "Config.Network"
	FieldConfigEgress   Field = "Config.Egress"
	FieldConfigMounts   Field = "Config.Mounts"
	FieldConfigLabels   Field = "Config.Labels"
	FieldConfigLifetime Field = "Config.Lifetime"

	FieldOffsets Field = "Offsets" // of Exec.Stream
	FieldSource  Field = "Source"  // of Exec.Reader
	FieldSignal  Field = "Signal"  // of Exec.Signal
	FieldPort    Field = "port"    // of Sandbox.Dial
	FieldName    Field = "name"    // of a file
	FieldMode    Field = "mode"    // of a file
	FieldOffset  Field = "offset"  // in a file
	FieldLimit   Field = "limit"   // of what is read of a file
)

// A LimitError says which limit of the Manager is reached. It matches ErrLimit.
type LimitError struct {
	Limit LimitKind
	Max   int // its value

	// RetryAfter is when trying again makes sense, or 0 when waiting does not
	// help.
	RetryAfter time.Duration
}

// A LimitKind is what a Manager limits, in words.
type LimitKind string

const (
	LimitSandboxes         LimitKind = "sandboxes"
	LimitSandboxesPerOwner LimitKind = "sandboxes of one owner"
	LimitRunning           LimitKind = "running executions"
	LimitRunningPerOwner   LimitKind = "running executions of one owner"
	LimitRunningPerSandbox LimitKind = "running executions in one sandbox"
	LimitWaiting           LimitKind = "waiting starts"
	LimitWaitingPerOwner   LimitKind = "waiting starts of one owner"
)

// Error returns the limit and its value.
func (e *LimitError) Error() string { return fmt.Sprintf("limit of %d %s reached", e.Max, e.Limit) }

// Is reports whether target is ErrLimit.
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// How a start, and a kill, can fail. These types are also the driver contract's.
type (
	// StartError is a start that failed: nothing of the command ran. It wraps its
	// Reason.
	StartError = backend.StartError

	// Reason says why a command could not be started. It is an error, so that
	// errors.Is(err, sandbox.ReasonNotFound) asks for it.
	Reason = backend.Reason

	// SurvivorsError names the processes that a kill could not end.
	SurvivorsError = backend.SurvivorsError

	// Survivor is a process that is still there after a kill.
	Survivor = backend.Survivor
)

const (
	ReasonNotFound            = backend.NotFound            // the program does not exist
	ReasonIsDirectory         = backend.IsDirectory         // the program is a directory
	ReasonNotExecutable       = backend.NotExecutable       // no permission, or no format the kernel knows
	ReasonInterpreterNotFound = backend.InterpreterNotFound // the script's or the binary's interpreter does not exist
	ReasonBadDirectory        = backend.BadDirectory        // the working directory is missing, not one, or closed to the user
	ReasonBadUser             = backend.BadUser             // the user does not exist, or may not be used
	ReasonTooLong             = backend.TooLong             // arguments and environment exceed what the kernel takes
	ReasonNoResources         = backend.NoResources         // no process, memory or descriptor is left
	ReasonCannotStart         = backend.CannotStart         // the sandbox cannot start any command; Detail says what to change
)

// FileInfo describes a file. It is also the driver contract's.
type FileInfo = backend.FileInfo

// What is wrong with a file, besides the errors of package io/fs.
var (
	ErrIsDirectory  = backend.ErrIsDirectory
	ErrNotDirectory = backend.ErrNotDirectory
	ErrNotEmpty     = backend.ErrNotEmpty    // a directory
	ErrSpecialFile  = backend.ErrSpecialFile // a FIFO, a socket or a device
	ErrOutside      = backend.ErrOutside     // the name leads out of the sandbox
	ErrLinkLoop     = backend.ErrLinkLoop    // too many levels of symbolic links
	ErrNoSpace      = backend.ErrNoSpace
	ErrArchive      = backend.ErrArchive // not a whole tar archive

	// ErrTooLarge: a content is longer than the caller allows.
	ErrTooLarge = errors.New("larger than allowed")
)

func invalidf(field Field, format string, args ...any) error {
	return &InvalidError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
