package agentclient

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/peer"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// A process is a command in a container.
type process struct {
	conn  *Conn
	lease *streamLease
	peer  *peer.Peer
	spec  *backend.Spec
	out   outcome // when its pipes were handed over, or nil

	exited   chan struct{}
	exitOnce sync.Once    // closes exited
	exit     backend.Exit // once exited is closed
	err      error        // once exited is closed

	// What follows is used only where out is nil.
	over      chan struct{}
	noInput   chan struct{} // nobody will read more input
	inputOnce sync.Once     // closes noInput

	mu      sync.Mutex // guards what follows
	changed *sync.Cond
	discard bool
	writing bool // a Write of a sink is in progress
	isOver  bool // over is closed
}

// An outcome is what becomes of a command whose pipes were handed over. It is a
// *proc.Outcome.
type outcome interface {
	Exited() <-chan struct{}
	OutputOver() <-chan struct{}
	DiscardOutput()
	Resize(context.Context, backend.TerminalSize) error
	End(backend.Exit, error)
	SetEmpty()
	Finish()
}

func newProcess(c *Conn, l *streamLease, spec *backend.Spec) *process {
	p := &process{
		conn:    c,
		lease:   l,
		peer:    peer.New(l, silence, true),
		spec:    spec,
		exited:  make(chan struct{}),
		over:    make(chan struct{}),
		noInput: make(chan struct{}),
	}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// silence is how long the agent may say nothing when it is to answer: the 10 s of a kill.
// One that is at work says so every second, but bombs that use up the container's memory
// hold it up for as long as it needs a page. It is also how long it may take the
// connection to take a signal.
const silence = 10 * time.Second

// start sends the frame of a Start, and waits until it is known whether the command runs.
// When ctx ends first, nothing is left of it, or it is not known.
func (p *process) start(ctx context.Context, frame []byte, handing int) error {
	defer p.conn.handed.expect(handing)()
	m, err := p.peer.Begin(ctx, func() error {
		p.lease.start(frame)
		return nil
	}, p.lease.next)
	switch m := m.(type) {
	case *wire.Started:
		if !m.Handed {
			return nil
		}
		if p.out, err = p.conn.handed.pipes(handing, p.spec); err == nil {
			return nil
		}
		err = lost(err)
		p.peer.Lose() // the agent kills it
	case *wire.Refused:
		err = &m.Err
	}
	p.endInput()
	clean := m != nil && p.peer.Release()
	p.lease.release(clean)
	return cmp.Or(err, errUntold)
}

// errUntold: something of the command has survived a kill until now.
var errUntold = lost("it was not told how the command ended")

// lost says why an outcome is unknown.
func lost(why any) error { return fmt.Errorf("agent: %w: %v", peer.ErrLost, why) }

// listen hears the agent until nothing of the command is left and no answer is
// due.
func (p *process) listen() {
	err := p.hear()
	if err != nil {
		p.peer.Lose()
	}
	p.end(backend.Exit{}, p.conn.explain(cmp.Or(err, errUntold)))
	p.endInput()
	p.endOutput()
	p.lease.release(p.peer.Release())
	if p.out != nil {
		p.out.SetEmpty()
		<-p.out.OutputOver() // no sink is called any more
	}
}

func (p *process) hear() error {
	for {
		m, err := p.lease.next()
		switch m := m.(type) {
		case *wire.Output:
			p.deliver(m)
		case *wire.Exit:
			p.end(p.conn.shown(m.Exit), nil)
		case *wire.Over:
			p.endOutput()
		case *wire.Empty:
			p.endInput()
		case *wire.Killed, *wire.Working:
		case *wire.Lost:
			return lost(m.Why)
		default:
			return lost(err)
		}
		if p.peer.Hear(m); p.peer.Idle() {
			return nil
		}
	}
}

func (p *process) deliver(m *wire.Output) {
	sinks := [...]io.Writer{p.spec.Stdout, p.spec.Stderr}
	if m.Stream < 1 || m.Stream > len(sinks) {
		return
	}
	p.mu.Lock()
	p.writing = !p.discard
	write := p.writing
	p.mu.Unlock()
	if write {
		sinks[m.Stream-1].Write(m.Data)
		p.mu.Lock()
		p.writing = false
		p.changed.Broadcast()
		p.mu.Unlock()
	}
}

// end says how the command ended. The first call counts.
func (p *process) end(exit backend.Exit, err error) {
	p.exitOnce.Do(func() {
		p.exit, p.err = exit, err
		close(p.exited)
		if p.out != nil {
			p.out.End(exit, err)
		}
	})
}

func (p *process) endInput() { p.inputOnce.Do(func() { close(p.noInput) }) }

func (p *process) endOutput() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endOutputLocked()
}

func (p *process) endOutputLocked() {
	p.discard = true
	if !p.isOver {
		p.isOver = true
		close(p.over)
	}
}

// Exited implements [backend.Process].
func (p *process) Exited() <-chan struct{} {
	if p.out != nil {
		return p.out.Exited()
	}
	return p.exited
}

// Exit implements [backend.Process].
func (p *process) Exit() (backend.Exit, error) {
	<-p.Exited()
	return p.exit, p.err
}

// OutputOver implements [backend.Process].
func (p *process) OutputOver() <-chan struct{} {
	if p.out != nil {
		return p.out.OutputOver()
	}
	return p.over
}

// DiscardOutput implements [backend.Process].
func (p *process) DiscardOutput() {
	if p.out != nil {
		p.out.DiscardOutput()
		return
	}
	p.endInput()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discard = true
	for p.writing {
		p.changed.Wait()
	}
	if !p.isOver {
		go p.peer.Tell(context.Background(), &wire.Discard{}) // a full window would block it
	}
}

// Signal implements [backend.Process].
func (p *process) Signal(ctx context.Context, s backend.Signal) error {
	return p.peer.Signal(ctx, p.exited, s)
}

// Resize implements [backend.Resizer].
func (p *process) Resize(ctx context.Context, size backend.TerminalSize) error {
	if p.out != nil {
		return p.out.Resize(ctx, size)
	}
	return p.peer.TellRunning(ctx, p.exited, &wire.Resize{Size: size})
}

// Kill implements [backend.Process]. After one that has failed nothing more happens
// either. Of one that has succeeded, everything else was told before: how the command ended
// too, unless its supervisor was lost.
func (p *process) Kill() error {
	left, err := p.peer.Kill()
	if p.out != nil {
		p.out.Finish()
	}
	switch {
	case err != nil:
		err = p.conn.explain(fmt.Errorf("agent: the kill was not answered: %w", err))
	case len(left) > 0:
		err = &backend.SurvivorsError{Survivors: left}
	case p.out != nil:
		<-p.OutputOver()
		return nil
	default:
		p.end(backend.Exit{}, peer.ErrLost)
		return nil
	}
	p.end(backend.Exit{}, err)
	p.DiscardOutput()
	p.endOutput()
	return err
}
