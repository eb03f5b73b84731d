package sandbox

import (
	"fmt"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// A waiter is a Process whose Wait another goroutine sits in, and none of whose
// methods can hold the execution up: what does not return in its time stays in a
// goroutine of its own.
type waiter struct {
	backend.Process
	exited chan struct{}
	exit   backend.Exit // once exited is closed
	err    error        // once exited is closed
}

const (
	// killTime is how long a kill may take, from the call to the known end: the
	// 10 s of the contract, and some time for the answer to come.
	killTime = 11 * time.Second

	// reasonTime is how long a backend may take to say why a sandbox that is gone
	// took a command along.
	reasonTime = time.Second

	// discardTime is how long a record waits for a Discard. The sinks drop what
	// comes in any case.
	discardTime = time.Second
)

// noAnswer is what is known of a call that has not returned.
func noAnswer(call string) error {
	return fmt.Errorf("the backend's %s has not returned", call)
}

// within waits for done, and reports whether it came within d.
func within(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// awaitReason waits for what Wait says, but not for long.
func (w *waiter) awaitReason() { within(reasonTime, w.exited) }

func (w *waiter) wait() {
	defer close(w.exited)
	w.exit, w.err = w.Wait()
}

// discard calls Discard.
func (w *waiter) discard() {
	discarded := make(chan struct{})
	go func() {
		defer close(discarded)
		w.Discard()
	}()
	within(discardTime, discarded)
}

// kill kills, and waits for how the command ended.
func (w *waiter) kill() error {
	timer := time.NewTimer(killTime)
	defer timer.Stop()
	killed := make(chan error, 1)
	go func() { killed <- w.Kill() }()
	select {
	case err := <-killed:
		if err != nil {
			return err
		}
	case <-timer.C:
		return noAnswer("Kill")
	}
	select {
	case <-w.exited: // a kill that succeeded has ended it
		return nil
	case <-timer.C:
		return noAnswer("Wait")
	}
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
	killed := cause != nil && err == nil && cause != ErrLost
	select {
	case <-w.exited:
		if w.err == nil {
			e.exit = &w.exit
		} else if e.err == nil && !killed { // then nothing is left, if it is not known how it ended
			e.err = w.err
		}
	default:
	}
	return e
}
