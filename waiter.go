package sandbox

import (
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// A waiter is a Process whose Wait another goroutine sits in.
type waiter struct {
	backend.Process
	exited chan struct{}
	exit   backend.Exit // once exited is closed
	err    error        // once exited is closed
}

// reasonTime is how long a backend may take to say why a sandbox that is gone took
// a command along.
const reasonTime = time.Second

// awaitReason waits for what Wait says, but not for long.
func (w *waiter) awaitReason() {
	timer := time.NewTimer(reasonTime)
	defer timer.Stop()
	select {
	case <-w.exited:
	case <-timer.C:
	}
}

func (w *waiter) wait() {
	defer close(w.exited)
	w.exit, w.err = w.Wait()
}

// failed reports whether it is known that the outcome cannot be known.
func (w *waiter) failed() bool {
	select {
	case <-w.exited:
		return w.err != nil
	default:
		return false
	}
}

// ending puts together how it ended, after everything has been done about it.
func (w *waiter) ending(cause, err error) ending {
	e := ending{cause: cause, err: err}
	if cause != nil && err == nil && cause != ErrLost {
		<-w.exited // a kill that succeeded has ended it
	}
	select {
	case <-w.exited:
		if w.err == nil {
			e.exit = &w.exit
		} else if e.err == nil {
			e.err = w.err
		}
	default:
	}
	return e
}
