//go:build unix

package proc

import (
	"context"
	"sync"

	"github.com/sandbox-go/sandbox/backend"
)

// An Outcome is what becomes of a command: how it ended, when its output is over, and
// when nothing of it is left. Whoever has the command's process tells it the first and
// the last. It is the part of a [backend.Process] that does not depend on who that is.
type Outcome struct {
	once   sync.Once     // closes ended
	ended  chan struct{} // the command itself has, or it will not be known
	exited chan struct{} // ended, and its output is with the sinks
	over   chan struct{}
	empty  chan struct{} // nothing is left, or nobody knows
	exit   backend.Exit  // once ended is closed
	err    error         // once ended is closed

	streams *Streams
}

// NewOutcome returns an Outcome that is still open.
func NewOutcome() *Outcome {
	return &Outcome{
		ended: make(chan struct{}), exited: make(chan struct{}),
		over: make(chan struct{}), empty: make(chan struct{}),
	}
}

// Follow says when the command's output is over, and owns its streams. It must be
// called once, before the methods of a [backend.Process] are.
func (o *Outcome) Follow(s *Streams) {
	o.streams = s
	go o.complete()
}

func (o *Outcome) complete() {
	<-o.ended
	o.streams.Flush()
	close(o.exited)
	select {
	case <-o.streams.Over():
	case <-o.empty:
		o.streams.Finish()
	}
	close(o.over)
	<-o.empty
	o.streams.Finish()
}

// End says how the command itself ended, or why nobody will know. The first call
// counts.
func (o *Outcome) End(exit backend.Exit, err error) {
	o.once.Do(func() {
		o.exit, o.err = exit, err
		close(o.ended)
	})
}

// Ended is closed when End has been called.
func (o *Outcome) Ended() <-chan struct{} { return o.ended }

// SetEmpty says that nothing of the command is left, or that nobody knows. It must
// be called once.
func (o *Outcome) SetEmpty() { close(o.empty) }

// Empty is closed when SetEmpty has been called.
func (o *Outcome) Empty() <-chan struct{} { return o.empty }

// Exited implements [backend.Process].
func (o *Outcome) Exited() <-chan struct{} { return o.exited }

// Exit implements [backend.Process].
func (o *Outcome) Exit() (backend.Exit, error) {
	<-o.exited
	return o.exit, o.err
}

// OutputOver implements [backend.Process].
func (o *Outcome) OutputOver() <-chan struct{} { return o.over }

// DiscardOutput implements [backend.Process].
func (o *Outcome) DiscardOutput() { o.streams.Discard() }

// Resize implements [backend.Resizer].
func (o *Outcome) Resize(ctx context.Context, size backend.TerminalSize) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return o.streams.Resize(size)
}

// Finish ends the output with what is in the pipes now, and waits until that is with
// the sinks.
func (o *Outcome) Finish() { o.streams.Finish() }
