package backend

import (
	"context"
	"time"
)

// A Recoverer is a Backend whose sandboxes outlive the process that made them.
// Package sandbox looks for it; a backend without it has nothing to recover. Its
// Info.Recover is set.
type Recoverer interface {
	// Recover reattaches to the sandboxes that an earlier process of the same service
	// left alive and that no process holds, and returns them, oldest first.
	// Nothing runs in them: what did was killed with that process. A sandbox is
	// recovered once; Recover may be called again. What is of no use any more is
	// removed. With an error come those that could be recovered.
	Recover(ctx context.Context) ([]Recovered, error)
}

// A Recovered is a sandbox that was recovered.
type Recovered struct {
	Config    *Config // what it was made of
	CreatedAt time.Time
	Instance  Instance
}
