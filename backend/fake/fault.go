package fake

import (
	"runtime"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// Linger makes the process stay for d after it has been killed. A kill waits for
// it for up to 10 s, and then reports it as a survivor. 0 is the default.
func (p *Process) Linger(d time.Duration) {
	p.alive()
	p.command.mu.Lock()
	defer p.command.mu.Unlock()
	p.linger = d
}

// Hang never returns and ignores all signals but SIGKILL, as a command whose exit
// is never reported.
func (p *Process) Hang() {
	p.alive()
	p.command.mu.Lock()
	p.caught = nil
	for s := backend.Signal(1); s.Valid(); s++ {
		p.ignored = append(p.ignored, s)
	}
	p.command.mu.Unlock()
	<-p.dead
	runtime.Goexit()
}

// LoseAfter loses the connection to the command when n more bytes of output have
// been written: they arrive, nothing after them does, and how the command ended
// stays unknown. With 0 it is lost at once.
func (p *Process) LoseAfter(n int) {
	p.alive()
	if n > 0 {
		p.command.out.loseAfter(n)
		return
	}
	p.command.lose(errLost)
	p.alive()
}

// LoseSandbox makes the whole sandbox die (see Backend.Lose).
func (p *Process) LoseSandbox() {
	p.alive()
	p.command.inst.lose()
	p.alive()
}
