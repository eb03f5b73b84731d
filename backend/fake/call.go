package fake

import (
	"maps"
	"slices"

	"github.com/sandbox-go/sandbox/backend"
)

// An Op is what a Call asked for.
type Op string

const (
	OpCreate  Op = "create"
	OpStart   Op = "start"
	OpDiscard Op = "discard"
	OpSignal  Op = "signal"
	OpKill    Op = "kill"
	OpDestroy Op = "destroy"
)

// A Call is something that the backend was asked for. A create, start and destroy
// is recorded when it is done, the others when they begin.
type Call struct {
	Op      Op
	Sandbox string          // the sandbox's id
	Config  *backend.Config // of a create
	Command *Command        // of a start, discard, signal and kill
	Signal  backend.Signal  // of a signal
	Err     error           // of a create, start and destroy that failed
}

// Calls returns what was asked of the backend so far, oldest first.
func (b *Backend) Calls() []Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

func (b *Backend) record(c Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, c)
}

func copyConfig(cfg *backend.Config) *backend.Config {
	c := *cfg
	c.Env = maps.Clone(cfg.Env)
	c.Labels = maps.Clone(cfg.Labels)
	c.Mounts = slices.Clone(cfg.Mounts)
	if cfg.Egress != nil {
		c.Egress = new(*cfg.Egress)
		c.Egress.Allow = slices.Clone(cfg.Egress.Allow)
	}
	return &c
}
