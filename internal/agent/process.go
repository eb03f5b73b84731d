package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/wire"
)

// A process is a command in a container.
type process struct {
	lease *lease
	sinks [2]io.Writer

	exited    chan struct{}
	exitOnce  sync.Once    // closes exited
	exit      backend.Exit // once exited is closed
	err       error        // once exited is closed
	over      chan struct{}
	noInput   chan struct{} // nobody will read more input
	inputOnce sync.Once     // closes noInput

	mu      sync.Mutex // guards what follows
	changed *sync.Cond
	discard bool
	writing bool                      // a Write of a sink is in progress
	isOver  bool                      // over is closed
	empty   bool                      // nothing of the command is left
	lost    bool                      // nobody can tell any more
	kills   []chan []backend.Survivor // the answers that are due
}

func newProcess(l *lease, spec *backend.Spec) *process {
	p := &process{
		lease:   l,
		sinks:   [2]io.Writer{spec.Stdout, spec.Stderr},
		exited:  make(chan struct{}),
		over:    make(chan struct{}),
		noInput: make(chan struct{}),
	}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// answerTime is how long the agent may take to answer what it answers at once or,
// with a kill, within 10 s.
const answerTime = 15 * time.Second

// awaitStart waits until it is known whether the command runs. When ctx ends
// first, nothing is left of it.
func (p *process) awaitStart(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		p.lease.expire(answerTime)
		p.lease.send(&wire.Kill{})
	})
	err := p.startAnswer()
	_, clean := err.(*backend.StartError)
	if !stop() {
		clean = false
		for m := wire.Message(nil); err == nil; {
			if m, err = p.lease.next(); err == nil {
				err = ofKill(m)
			}
		}
		if left := (*backend.SurvivorsError)(nil); !errors.As(err, &left) {
			err = ctx.Err()
		}
	}
	if err != nil {
		p.endInput()
		p.lease.release(clean)
	}
	return err
}

func (p *process) startAnswer() error {
	m, err := p.lease.next()
	switch m := m.(type) {
	case *wire.Started:
		return nil
	case *wire.Refused:
		return &m.StartError
	case *wire.Killed, *wire.Lost:
		return ofKill(m)
	}
	return lost(err)
}

// errKilled: a start was given up, and nothing is left of it.
var errKilled = errors.New("killed")

// ofKill returns what came of a kill, and nil when m does not tell.
func ofKill(m wire.Message) error {
	switch m := m.(type) {
	case *wire.Killed:
		if len(m.Survivors) > 0 {
			return &backend.SurvivorsError{Survivors: m.Survivors}
		}
		return errKilled
	case *wire.Lost:
		return lost(m.Why)
	}
	return nil
}

// errUntold: something of the command has survived a kill until now.
var errUntold = lost("it was not told how the command ended")

// lost says why an outcome is unknown.
func lost(why any) error { return fmt.Errorf("agent: connection lost: %v", why) }

// listen hears the agent until nothing of the command is left and no answer is
// due.
func (p *process) listen() {
	err := p.hear()
	p.end(backend.Exit{}, cmp.Or(err, errUntold))
	p.endInput()
	p.mu.Lock()
	p.lost = p.lost || err != nil
	for _, k := range p.kills {
		close(k)
	}
	p.kills = nil
	p.endOutputLocked()
	p.mu.Unlock()
	p.lease.release(err == nil)
}

func (p *process) hear() error {
	for {
		m, err := p.lease.next()
		switch m := m.(type) {
		case *wire.Output:
			p.deliver(m)
		case *wire.Exit:
			p.end(m.Exit, nil)
		case *wire.Over:
			p.endOutput()
		case *wire.Empty:
			p.endInput()
			p.mu.Lock()
			p.empty = true
			p.mu.Unlock()
		case *wire.Killed:
			p.mu.Lock()
			if len(p.kills) > 0 {
				p.kills[0] <- m.Survivors
				p.kills = p.kills[1:]
			}
			p.mu.Unlock()
		case *wire.Lost:
			return lost(m.Why)
		default:
			return lost(err)
		}
		if p.done() {
			return nil
		}
	}
}

// done reports whether nothing more will be heard.
func (p *process) done() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.empty && len(p.kills) == 0 && p.isOver
}

func (p *process) deliver(m *wire.Output) {
	if m.Stream < 1 || m.Stream > len(p.sinks) {
		return
	}
	p.mu.Lock()
	p.writing = !p.discard
	write := p.writing
	p.mu.Unlock()
	if write {
		p.sinks[m.Stream-1].Write(m.Data)
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

// Wait implements [backend.Process].
func (p *process) Wait() (backend.Exit, error) {
	<-p.exited
	return p.exit, p.err
}

// OutputOver implements [backend.Process].
func (p *process) OutputOver() <-chan struct{} { return p.over }

// Discard implements [backend.Process].
func (p *process) Discard() {
	p.endInput()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discard = true
	for p.writing {
		p.changed.Wait()
	}
	if !p.isOver {
		go p.lease.send(&wire.Discard{}) // a full window would block it
	}
}

// Signal implements [backend.Process].
func (p *process) Signal(s backend.Signal) error {
	if !s.Valid() {
		return fmt.Errorf("%v is no signal", s)
	}
	select {
	case <-p.exited:
		return os.ErrProcessDone
	default:
		return p.lease.send(&wire.Signal{Signal: s})
	}
}

// Resize implements [backend.Resizer].
func (p *process) Resize(size backend.TerminalSize) error {
	select {
	case <-p.exited:
		return os.ErrProcessDone
	default:
		return p.lease.send(&wire.Resize{TerminalSize: size})
	}
}

// Kill implements [backend.Process].
func (p *process) Kill() error {
	answer := make(chan []backend.Survivor, 1)
	p.mu.Lock()
	switch {
	case p.lost:
		p.mu.Unlock()
		return lost("nobody is left to kill it")
	case p.empty && p.isOver:
		p.mu.Unlock()
		return nil
	}
	p.kills = append(p.kills, answer)
	p.mu.Unlock()
	if p.lease.send(&wire.Kill{}) != nil {
		p.lease.expire(0) // listen will notice
	}
	timer := time.NewTimer(answerTime)
	defer timer.Stop()
	select {
	case survivors, ok := <-answer:
		return p.killed(survivors, ok)
	case <-timer.C:
		p.lease.expire(0)
		<-answer
		return p.killed(nil, false)
	}
}

// killed makes sure that nothing more happens, as after any kill. Of one that has
// succeeded, everything else was told before.
func (p *process) killed(survivors []backend.Survivor, known bool) error {
	var err error
	switch {
	case !known:
		err = lost("the kill was not answered")
	case len(survivors) > 0:
		err = &backend.SurvivorsError{Survivors: survivors}
	default:
		return nil
	}
	p.end(backend.Exit{}, err)
	p.Discard()
	p.endOutput()
	return err
}
