package sandbox

import (
	"errors"
	"fmt"

	"github.com/sandbox-go/sandbox/backend"
)

// Why an execution was told to end. Any other cause but ErrLost is the caller's
// context.
var (
	errTimeout = errors.New("timed out")
	errCancel  = errors.New("cancelled")
)

// An outcome is all that is known of how an execution ended.
type outcome struct {
	cause error         // why it was told to end, or ErrLost; nil when it was not
	exit  *backend.Exit // how the command ended; nil when that is unknown
	err   error         // what went wrong in starting, waiting or killing

	// unstarted: the sandbox was gone before the command was started; err says so.
	unstarted bool
}

// apply says how the execution ended. It is the only place that does. The order
// is the rule: a kill that was asked for wins over whatever else happened, and
// without a known exit there is no exit code.
func (e outcome) apply(rec *Execution) {
	var start *StartError
	switch {
	case e.cause == errTimeout:
		rec.Status = TimedOut
		rec.ExitCode = new(TimeoutExitCode)
		rec.Err = unverified(e.err)
	case e.cause != nil && e.cause != ErrLost:
		rec.Status = Cancelled
		rec.Err = unverified(e.err)
	case e.unstarted:
		rec.Status = Failed
		rec.Err = e.err
	case errors.As(e.err, &start):
		rec.Status = Failed
		rec.Err = e.err
	case e.cause == ErrLost || e.exit == nil:
		rec.Status = Failed
		rec.Err = lost(e.err)
	case e.exit.Signal != 0:
		rec.Status = Completed
		rec.Signal = e.exit.Signal
		rec.OOMKilled = e.exit.OOMKilled
		rec.ExitCode = new(128 + int(e.exit.Signal))
	default:
		rec.Status = Completed
		rec.ExitCode = new(e.exit.Code)
	}
	if e.exit != nil {
		rec.Usage = e.exit.Usage
	}
}

// unverified returns what is to be said of a kill that reported err.
func unverified(err error) error {
	var survivors *SurvivorsError
	if err == nil || errors.As(err, &survivors) {
		return err
	}
	return lost(err)
}

// lost makes an error that matches ErrLost.
func lost(err error) error {
	if err == nil || errors.Is(err, ErrLost) {
		return ErrLost
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}
