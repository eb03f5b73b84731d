//go:build unix

package pump

import (
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// A loan is of the pipe to the sink, while the pump's own goroutine waits. Pump.mu guards
// it.
type loan struct {
	open        bool
	pulling     bool // a Pull is in progress
	interrupted bool // the Pull in progress, or the next one, is to return
	woken       bool // the Pull in progress has been, by a deadline
}

var _ backend.Source = (*Pump)(nil)

// lend lends the pipe to the sink, if that takes it, and waits until it is given back.
// So a reader that keeps up with a busy pipe reads it itself.
func (p *Pump) lend() {
	puller, ok := p.sink.(backend.Puller)
	if !ok {
		return
	}
	p.mu.Lock()
	p.loan.open = p.limit < 0 && !p.discard
	open := p.loan.open
	p.mu.Unlock()
	if open && !puller.Offer(p) {
		p.Release()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.loan.open || p.loan.pulling {
		p.changed.Wait()
	}
}

// Pull implements [backend.Source].
func (p *Pump) Pull(buf []byte, keep func(n int)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.loan.open || p.loan.interrupted {
		p.loan.interrupted = false
		return p.loan.open
	}
	p.loan.pulling = true
	p.mu.Unlock()
	n := 0
	p.pipe.Read(func(fd uintptr) (done bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.loan.open || p.loan.interrupted {
			return true
		}
		if n, done = p.readLocked(int(fd), buf); done && n == 0 {
			p.loan.open = false // the pump sees the end itself
		}
		return done
	})
	p.mu.Lock()
	if n > 0 {
		p.deliverLocked(n, keep)
	}
	if p.loan.woken && p.limit < 0 {
		p.pipe.SetReadDeadline(time.Time{})
	}
	p.loan = loan{open: p.loan.open}
	p.changed.Broadcast()
	return p.loan.open
}

// Interrupt implements [backend.Source].
func (p *Pump) Interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loan.open {
		p.loan.interrupted = true
		p.wakeLocked()
	}
}

// Release implements [backend.Source].
func (p *Pump) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLoanLocked()
}

func (p *Pump) endLoanLocked() {
	if p.loan.open {
		p.loan.open = false
		p.wakeLocked()
		p.changed.Broadcast()
	}
}

// wakeLocked ends the waiting of a Pull.
func (p *Pump) wakeLocked() {
	if p.loan.pulling {
		p.loan.woken = true
		p.pipe.SetReadDeadline(time.Unix(1, 0))
	}
}
