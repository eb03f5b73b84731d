package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// No call of a backend holds an execution up: what does not return in its time stays
// in a goroutine of its own.
const (
	// killTime is how long a kill may take, from the call to the known end: the
	// 10 s of the contract, and some time for the answer to come.
	killTime = 11 * time.Second

	// reasonTime is how long a backend may take to say why a sandbox that is gone
	// took a command along.
	reasonTime = time.Second

	// discardTime is how long a record waits for DiscardOutput. The sinks drop what
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

// answerTime is how long a backend may take to see that a context has ended.
const answerTime = time.Second

// answer calls do, which is to heed ctx, and waits no longer for it than answerTime
// after that has ended. Call is what of the backend's it calls.
func answer(ctx context.Context, call string, do func() error) error {
	_, err := answerOf(ctx, call, answerTime, func() (struct{}, error) { return struct{}{}, do() }, nil)
	return err
}

// answerOf is answer for a call that returns something, with another bound. What comes
// too late is given to late, unless that is nil.
func answerOf[T any](ctx context.Context, call string, bound time.Duration, do func() (T, error), late func(T) error) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
	}
	go func() {
		if r := <-done; r.err == nil && late != nil {
			late(r.value)
		}
	}()
	var none T
	return none, fmt.Errorf("%w: %w", ctx.Err(), noAnswer(call))
}

// discard discards p's output.
func discard(p backend.Process) {
	discarded := make(chan struct{})
	go func() {
		defer close(discarded)
		p.DiscardOutput()
	}()
	within(discardTime, discarded)
}

// kill kills p, and waits until it is known how the command ended.
func kill(p backend.Process) error {
	timer := time.NewTimer(killTime)
	defer timer.Stop()
	killed := make(chan error, 1)
	go func() { killed <- p.Kill() }()
	select {
	case err := <-killed:
		if err != nil {
			return err
		}
	case <-timer.C:
		return noAnswer("Kill")
	}
	select {
	case <-p.Exited(): // a kill that succeeded has ended it
		return nil
	case <-timer.C:
		return errors.New("the backend has killed the command and does not say that it has ended")
	}
}

// exited reports whether p has ended.
func exited(p backend.Process) bool {
	select {
	case <-p.Exited():
		return true
	default:
		return false
	}
}

// failed reports whether it is known that p's outcome cannot be known.
func failed(p backend.Process) bool {
	if !exited(p) {
		return false
	}
	_, err := p.Exit()
	return err != nil
}

// outcomeOf puts together how p ended, after everything has been done about it.
func outcomeOf(p backend.Process, cause, killErr error) outcome {
	e := outcome{cause: cause, err: killErr}
	killed := cause != nil && killErr == nil && cause != ErrLost
	if !exited(p) {
		return e
	}
	exit, err := p.Exit()
	if err == nil {
		e.exit = &exit
	} else if e.err == nil && !killed { // then nothing is left, if it is not known how it ended
		e.err = err
	}
	return e
}
