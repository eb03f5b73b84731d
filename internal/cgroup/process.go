package cgroup

import (
	"context"
	"os"
	"sync"
	"sync/atomic"

	"github.com/sandbox-go/sandbox/backend"
)

// A process is one whose kills for memory are told.
type process struct {
	backend.Process
	killed atomic.Bool // by us
	exit   func() (backend.Exit, error)
}

// Process returns p, which is of the group, as one whose Exit tells of kills for memory. The
// group had so many before it started.
func (g *Group) Process(p backend.Process, before int) backend.Process {
	if g == nil {
		return p
	}
	q := &process{Process: p}
	q.exit = sync.OnceValues(func() (backend.Exit, error) {
		exit, err := p.Exit()
		kills := g.OOMKills() - before
		if err == nil && kills > 0 && exit.Usage != nil {
			usage := *exit.Usage
			usage.OOMKills = kills
			exit.Usage = &usage
			exit.OOMKilled = exit.Signal == backend.SIGKILL && !q.killed.Load()
		}
		return exit, err
	})
	return q
}

// Exit implements [backend.Process].
func (p *process) Exit() (backend.Exit, error) { return p.exit() }

// Kill implements [backend.Process].
func (p *process) Kill() error {
	p.killed.Store(true)
	return p.Process.Kill()
}

// Resize implements [backend.Resizer].
func (p *process) Resize(ctx context.Context, size backend.TerminalSize) error {
	if r, ok := p.Process.(backend.Resizer); ok {
		return r.Resize(ctx, size)
	}
	return os.ErrProcessDone
}
