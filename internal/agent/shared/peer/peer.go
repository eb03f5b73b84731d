// Package peer is the asking side of the protocol about one command: what the service
// is towards the agent in a container, and the owner of a supervisor towards that. No
// wait for the other side is without a bound, and no lock is held during one.
package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// ErrSilent: the other side did not answer in time.
var ErrSilent = errors.New("no answer")

// ErrLost: nobody can tell what became of the command.
var ErrLost = errors.New("connection lost")

// ErrEnded: the other side has ended, and has not done what it was asked for.
var ErrEnded = errors.New("agent is closed")

// ErrUnsent: the other side was not asked to start the command, so it does not run.
var ErrUnsent = errors.New("not sent")

// A Link carries messages to the other side.
type Link interface {
	// Send sends one message. It may block for as long as the connection is there.
	// Messages that are sent at the same time do not mix.
	Send(wire.Message) error

	// Abort gives the other side up: reading from it fails from then on.
	Abort()
}

// A Peer is the other side while it has one command. Its methods may be called
// concurrently.
type Peer struct {
	link    Link
	silence time.Duration
	heard   atomic.Int64 // messages

	mu       sync.Mutex // guards what follows
	sending  int        // messages that are being sent
	released bool       // the link may be about another command
	empty    bool       // nothing of the command is left
	over     bool       // nor is its output
	lost     bool
	due      []chan []backend.Survivor // the answers that are due, oldest first
}

// New returns the other side of link. One that is to answer and says nothing for
// silence is taken for lost. HasOutput says that it tells when the output is over.
func New(link Link, silence time.Duration, hasOutput bool) *Peer {
	return &Peer{link: link, silence: silence, over: !hasOutput}
}

// Hear notes what a message says of the command's end, and answers whom it answers.
// Every message is to be passed to it, in order.
func (p *Peer) Hear(m wire.Message) {
	p.heard.Add(1)
	switch m := m.(type) {
	case *wire.Empty:
		p.mu.Lock()
		p.empty = true
		p.mu.Unlock()
	case *wire.Over:
		p.mu.Lock()
		p.over = true
		p.mu.Unlock()
	case *wire.Killed:
		p.mu.Lock()
		if len(p.due) > 0 {
			p.due[0] <- m.Survivors
			p.due = p.due[1:]
		}
		p.mu.Unlock()
	}
}

// Idle reports whether there will be nothing more to hear.
func (p *Peer) Idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.empty && p.over && len(p.due) == 0
}

// Lose gives the other side up. Whoever waits for it no longer does.
func (p *Peer) Lose() {
	p.mu.Lock()
	abort := !p.lost && !p.released
	p.lost = true
	for _, answer := range p.due {
		close(answer)
	}
	p.due = nil
	p.mu.Unlock()
	if abort {
		p.link.Abort()
	}
}

// Release ends what may be sent, and reports whether the link can serve another
// command: nothing is due, and nothing is being sent that could be taken for one about
// the next.
func (p *Peer) Release() (clean bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = true
	return !p.lost && p.sending == 0 && len(p.due) == 0
}

// send sends m, unless that could be taken for one about the next command.
func (p *Peer) send(m wire.Message) error {
	p.mu.Lock()
	if p.released || p.lost {
		p.mu.Unlock()
		return os.ErrProcessDone
	}
	p.sending++
	p.mu.Unlock()
	err := p.link.Send(m)
	p.mu.Lock()
	p.sending--
	p.mu.Unlock()
	return err
}

// Tell sends what has no answer. After ErrSilent, or the error of a ctx that ends
// meanwhile, it may still arrive.
func (p *Peer) Tell(ctx context.Context, m wire.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() { sent <- p.send(m) }()
	timer := time.NewTimer(p.silence)
	defer timer.Stop()
	select {
	case err := <-sent:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return ErrSilent
	}
}

// Signal sends a signal to the command, unless exited is closed: the command has then
// ended. It keeps the rules of [backend.Process].
func (p *Peer) Signal(ctx context.Context, exited <-chan struct{}, s backend.Signal) error {
	if !s.Valid() {
		return fmt.Errorf("%v is no signal", s)
	}
	return p.TellRunning(ctx, exited, &wire.Signal{Signal: s})
}

// TellRunning is Tell, unless exited is closed.
func (p *Peer) TellRunning(ctx context.Context, exited <-chan struct{}, m wire.Message) error {
	select {
	case <-exited:
		return os.ErrProcessDone
	default:
		return p.Tell(ctx, m)
	}
}

// Kill asks for the command's end, and returns what survives. An error means that
// nobody knows; the other side is given up then.
func (p *Peer) Kill() ([]backend.Survivor, error) {
	p.mu.Lock()
	nothing := p.empty && p.over && !p.lost
	p.mu.Unlock()
	if nothing {
		return nil, nil
	}
	return p.Ask(&wire.Kill{})
}

// Ask asks what is answered by Killed.
func (p *Peer) Ask(m wire.Message) ([]backend.Survivor, error) {
	answer := make(chan []backend.Survivor, 1)
	p.mu.Lock()
	switch {
	case p.lost:
		p.mu.Unlock()
		return nil, ErrLost
	case p.released: // meanwhile: nothing is left
		p.mu.Unlock()
		return nil, nil
	}
	p.due = append(p.due, answer)
	p.mu.Unlock()
	go func() {
		if p.send(m) != nil {
			p.Lose()
		}
	}()
	return p.await(answer)
}

// AskAlone is Ask where nobody else hears the other side: it reads by next until the
// answer has come.
func (p *Peer) AskAlone(m wire.Message, next func() (wire.Message, error)) ([]backend.Survivor, error) {
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for {
			m, err := next()
			if err != nil {
				p.Lose()
				return
			}
			if p.Hear(m); answers(m) {
				return
			}
		}
	}()
	left, err := p.Ask(m)
	<-heard
	return left, err
}

// How a silence is measured: a process that was itself stopped for a while finds one
// part of it over, and not all of it. Whoever works on an answer says so, but not for
// ever.
const (
	silenceParts = 10
	maxSilences  = 3
)

func (p *Peer) await(answer <-chan []backend.Survivor) ([]backend.Survivor, error) {
	tick := time.NewTicker(p.silence / silenceParts)
	defer tick.Stop()
	heard, quiet := p.heard.Load(), 0
	for n := 0; quiet < silenceParts && n < maxSilences*silenceParts; n++ {
		select {
		case left, ok := <-answer:
			return known(left, ok, ErrLost)
		case <-tick.C:
		}
		quiet++
		if h := p.heard.Load(); h != heard {
			heard, quiet = h, 0
		}
	}
	p.Lose()
	left, ok := <-answer // it may have come at the last moment
	return known(left, ok, fmt.Errorf("%w: %w", ErrLost, ErrSilent))
}

func known(left []backend.Survivor, ok bool, otherwise error) ([]backend.Survivor, error) {
	if !ok {
		return nil, otherwise
	}
	return left, nil
}

// answers reports whether m is the answer to a kill.
func answers(m wire.Message) bool {
	_, ok := m.(*wire.Killed)
	return ok
}

// Begin sends a Start by send, and returns the first message about the command, which
// the caller has not read. It uses next to read. When ctx ends before, it has the
// command killed, and returns the context's error if nothing is left, a
// *backend.SurvivorsError if something is, or else ErrLost. ErrUnsent is of a send
// that failed.
func (p *Peer) Begin(ctx context.Context, send func() error, next func() (wire.Message, error)) (wire.Message, error) {
	var left []backend.Survivor
	var killErr error
	sent, killed := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		timer := time.NewTimer(p.silence)
		defer timer.Stop()
		select {
		case <-sent: // before, a kill would be taken for one of what was before
		case <-timer.C:
			p.Lose() // ends the sending
		}
		left, killErr = p.Ask(&wire.Kill{})
	})
	hear := func() (wire.Message, error) {
		m, err := next()
		switch m := m.(type) {
		case nil:
			return nil, fmt.Errorf("%w: %w", ErrLost, err)
		case *wire.Lost:
			return nil, fmt.Errorf("%w: %s", ErrLost, m.Why)
		}
		p.Hear(m)
		return m, nil
	}
	err := send()
	close(sent)
	if err != nil {
		p.Lose()
		if !stop() {
			<-killed
		}
		return nil, fmt.Errorf("%w: %w", ErrUnsent, err)
	}
	m, err := hear()
	if stop() {
		if err != nil {
			p.Lose()
		}
		return m, err
	}
	for err == nil && !answers(m) {
		m, err = hear()
	}
	if err != nil {
		p.Lose()
	}
	<-killed
	switch {
	case killErr != nil:
		return nil, errors.Join(killErr, err)
	case len(left) > 0:
		return nil, &backend.SurvivorsError{Survivors: left}
	}
	return nil, ctx.Err()
}
