package sandbox

import (
	"context"
	"time"
)

// An Observer is told what happens to sandboxes and executions, by
// [Options.Observer] or [ManagerOptions.Observer]. Embed [NopObserver] and define
// the methods of interest: methods may be added later.
//
// One method is called at a time, in the order in which things happened, from a
// goroutine of this package that holds no lock. Nothing waits for it: of the events
// that wait for a slow observer, 4,096 and 64 MiB of records are kept, and the Logger
// is told how many were not shown. Close waits until the observer has seen all, for
// up to 10 s. A panic is logged.
//
// Each context has the values of the context of the call that brought the event about,
// such as a trace's span, and never ends. Where nobody called, as when a sandbox dies
// or expires, it is context.Background().
type Observer interface {
	// SandboxCreated is called when New, Create or GetOrCreate has made a sandbox.
	SandboxCreated(context.Context, SandboxEvent)

	// SandboxRecovered is called when a Manager has reattached to a sandbox that an
	// earlier process of the service left running.
	SandboxRecovered(context.Context, SandboxEvent)

	// SandboxDied is called when a sandbox can run nothing any more without having
	// been closed.
	SandboxDied(context.Context, SandboxEvent)

	// SandboxExpired is called when a Manager is about to remove a sandbox that was
	// idle for too long, or is at the end of its lifetime.
	SandboxExpired(context.Context, SandboxEvent)

	// SandboxRemoved is called when a sandbox has been closed, for whatever reason,
	// and nothing is left of it. No event of an execution or of egress follows.
	SandboxRemoved(context.Context, SandboxEvent)

	// StartWaited is called when a start has waited for a slot, or was refused one.
	StartWaited(context.Context, WaitEvent)

	// ExecutionStarted is called when a command has been started. ExecutionEnded is
	// given the context that it returns; nil is the one that it got.
	ExecutionStarted(context.Context, ExecutionEvent) context.Context

	// ExecutionEnded is called when an execution is over. For a command that could
	// not be started, it is called alone.
	ExecutionEnded(context.Context, ExecutionEvent)

	// EgressEnded is called when an attempt to get out of a sandbox was refused, has
	// failed, or its connection has ended. A sandbox can make many: of them no more
	// than 2,048 are kept for a slow observer.
	EgressEnded(context.Context, EgressEvent)

	sealed()
}

// A SandboxEvent says which sandbox something has happened to, and when. It may be
// kept, and must not be modified.
type SandboxEvent struct {
	Key  Key  // its Manager's key; the zero Key for a sandbox of New
	Info Info // as it was at Time
	Time time.Time
}

// A WaitEvent says how long a start has waited for a slot.
type WaitEvent struct {
	SandboxEvent
	Waited time.Duration

	// Err says why the start got no slot: a *LimitError, or the error of its context.
	// It is nil when it got one.
	Err error
}

// An ExecutionEvent says how far an execution has come.
type ExecutionEvent struct {
	SandboxEvent
	Execution *Execution // the record as it was at Time
}

// An EgressEvent says how an attempt to get out of a sandbox has ended.
type EgressEvent struct {
	SandboxEvent
	Attempt EgressAttempt
}

// NopObserver is an [Observer] that does nothing. It is there to be embedded.
type NopObserver struct{}

// SandboxCreated does nothing.
func (NopObserver) SandboxCreated(context.Context, SandboxEvent) {}

// SandboxRecovered does nothing.
func (NopObserver) SandboxRecovered(context.Context, SandboxEvent) {}

// SandboxDied does nothing.
func (NopObserver) SandboxDied(context.Context, SandboxEvent) {}

// SandboxExpired does nothing.
func (NopObserver) SandboxExpired(context.Context, SandboxEvent) {}

// SandboxRemoved does nothing.
func (NopObserver) SandboxRemoved(context.Context, SandboxEvent) {}

// StartWaited does nothing.
func (NopObserver) StartWaited(context.Context, WaitEvent) {}

// ExecutionStarted returns ctx.
func (NopObserver) ExecutionStarted(ctx context.Context, _ ExecutionEvent) context.Context {
	return ctx
}

// ExecutionEnded does nothing.
func (NopObserver) ExecutionEnded(context.Context, ExecutionEvent) {}

// EgressEnded does nothing.
func (NopObserver) EgressEnded(context.Context, EgressEvent) {}

func (NopObserver) sealed() {}
