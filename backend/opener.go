package backend

import (
	"context"
	"time"
)

// An Opener is a Backend whose sandboxes outlive the process that made them.
// Package sandbox looks for it; a backend without it has nothing to take up. Its
// Info.Restore is set.
type Opener interface {
	// Open takes up the sandboxes that an earlier process of the same service
	// left alive and that no process holds, and returns them, oldest first.
	// Nothing runs in them: what did was killed with that process. A sandbox is
	// taken up once; Open may be called again. What is of no use any more is
	// removed. With an error come those that could be taken up.
	Open(ctx context.Context) ([]Opened, error)
}

// An Opened is a sandbox that was taken up.
type Opened struct {
	Config    *Config // what it was made of
	CreatedAt time.Time
	Instance  Instance
}
