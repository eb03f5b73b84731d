package backend

import (
	"errors"
	"fmt"
	"strings"
)

// ErrGone is what Start returns in a sandbox that has died or was destroyed: the
// command was not started.
var ErrGone = errors.New("sandbox is gone")

// A Reason says why a command could not be started. It is an error, so that
// errors.Is(err, backend.NotFound) asks for it.
type Reason string

const (
	NotFound            Reason = "not found"             // the program does not exist
	IsDirectory         Reason = "is a directory"        // the program is a directory
	NotExecutable       Reason = "not executable"        // no permission, or no format the kernel knows
	InterpreterNotFound Reason = "interpreter not found" // the script's or the binary's interpreter does not exist
	BadDirectory        Reason = "bad directory"         // the working directory is missing, not one, or closed to the user
	BadUser             Reason = "bad user"              // the user does not exist, or may not be used
	TooLong             Reason = "too long"              // arguments and environment exceed what the kernel takes
	NoResources         Reason = "no resources"          // no process, memory or descriptor is left
	CannotStart         Reason = "cannot start commands" // the sandbox cannot start any; Detail says what to change
)

// Error returns the reason in words.
func (r Reason) Error() string { return string(r) }

// A StartError says why a command could not be started: nothing of it ran.
type StartError struct {
	Reason Reason `json:"reason"`

	// Path is what the reason is about: the program, the directory, the user.
	Path string `json:"path,omitempty"`

	// Errno is the number the kernel gave, as Linux numbers it; 0 when the
	// kernel was not asked.
	Errno int `json:"errno,omitempty"`

	// Detail is more in words, or empty.
	Detail string `json:"detail,omitempty"`
}

// Error returns the path, the reason and the detail.
func (e *StartError) Error() string {
	msg := string(e.Reason)
	if e.Path != "" {
		msg = fmt.Sprintf("%s: %s", e.Path, msg)
	}
	if e.Detail != "" {
		msg += " (" + e.Detail + ")"
	}
	return msg
}

// Unwrap returns the reason.
func (e *StartError) Unwrap() error { return e.Reason }

// A SurvivorsError names the processes that a kill could not end.
type SurvivorsError struct {
	Survivors []Survivor `json:"processes"`
}

// A Survivor is a process that is still there after a kill.
type Survivor struct {
	PID  int    `json:"pid"`  // as the sandbox's own process list numbers it
	Name string `json:"name"` // the kernel's name of the process
}

// Error lists the survivors.
func (e *SurvivorsError) Error() string {
	var b strings.Builder
	b.WriteString("processes survived the kill:")
	for _, s := range e.Survivors {
		fmt.Fprintf(&b, " %d (%s)", s.PID, s.Name)
	}
	return b.String()
}
