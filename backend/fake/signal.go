package fake

import (
	"runtime"
	"slices"

	"github.com/sandbox-go/sandbox/backend"
)

// Ignore makes the process, and those that it spawns from now on, ignore the
// signals. SIGKILL cannot be ignored.
func (p *Process) Ignore(signals ...backend.Signal) {
	p.alive()
	p.command.mu.Lock()
	defer p.command.mu.Unlock()
	p.ignored = append(p.ignored, signals...)
}

// Catch makes the signals arrive on the channel instead of ending the process. A
// signal that comes while one of the same number waits there is lost. SIGKILL
// cannot be caught.
func (p *Process) Catch(signals ...backend.Signal) <-chan backend.Signal {
	p.alive()
	c := make(chan backend.Signal, len(signals))
	p.command.mu.Lock()
	defer p.command.mu.Unlock()
	if p.caught == nil {
		p.caught = make(map[backend.Signal]chan backend.Signal)
	}
	for _, s := range signals {
		p.caught[s] = c
	}
	return c
}

// Raise sends a signal to the process itself, which it ends unless it is ignored
// or caught, or harmless by default.
func (p *Process) Raise(s backend.Signal) {
	p.alive()
	p.command.mu.Lock()
	p.deliverLocked(s)
	p.command.mu.Unlock()
	p.alive()
}

// KillOOM ends the process as the kernel does when memory is short.
func (p *Process) KillOOM() {
	p.alive()
	p.command.mu.Lock()
	if !isClosed(p.dead) {
		p.oom = true
		p.command.oomKills++
		p.killLocked(backend.SIGKILL)
	}
	p.command.mu.Unlock()
	runtime.Goexit()
}

// harmless are the signals that end no process by default. Stopping is not
// imitated.
var harmless = [...]backend.Signal{
	backend.SIGCHLD, backend.SIGCONT, backend.SIGSTOP, backend.SIGTSTP,
	backend.SIGTTIN, backend.SIGTTOU, 23 /* SIGURG */, backend.SIGWINCH,
}

// deliverLocked gives the process a signal.
func (p *Process) deliverLocked(s backend.Signal) {
	if s != backend.SIGKILL {
		if c, ok := p.caught[s]; ok {
			select {
			case c <- s:
			default:
			}
			return
		}
		if slices.Contains(p.ignored, s) || slices.Contains(harmless[:], s) {
			return
		}
	}
	p.killLocked(s)
}

// killLocked ends the process. Its handler finds out in its next call.
func (p *Process) killLocked(s backend.Signal) {
	if isClosed(p.dead) {
		return
	}
	p.signal = s
	close(p.dead)
	p.command.out.wake()
	p.command.in.wake()
}
