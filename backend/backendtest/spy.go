package backendtest

import (
	"context"
	"io"
	"sync"

	"github.com/sandbox-go/sandbox/backend"
)

// spy is a backend that keeps the last instance, so that a case can ask the driver
// what the sandbox does not let it ask.
type spy struct {
	backend.Backend
	instance backend.Instance
}

func (b *spy) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	var err error
	b.instance, err = b.Backend.Create(ctx, cfg)
	return b.instance, err
}

// create makes a sandbox without package sandbox.
func (s *subject) create(b backend.Backend, id string) backend.Instance {
	s.Helper()
	cfg := backend.Config{}
	if s.h.Config != nil {
		cfg = *s.h.Config
	}
	cfg.ID = id
	i, err := b.Create(s.ctx, &cfg)
	if err != nil {
		s.Fatalf("create: %v", err)
	}
	return i
}

// process starts steps in the case's sandbox without package sandbox.
func (s *subject) process(stdout io.Writer, steps ...step) backend.Process {
	s.Helper()
	p, err := s.instance.Start(s.ctx, s.spec(stdout, steps...))
	if err != nil {
		s.Fatalf("start: %v", err)
	}
	return p
}

// spec is what package sandbox makes of steps.
func (s *subject) spec(stdout io.Writer, steps ...step) *backend.Spec {
	cmd := s.command(steps...)
	return &backend.Spec{Shell: cmd.Shell, Argv: cmd.Argv, Stdout: stdout, Stderr: io.Discard}
}

// guarded is a sink that notices calls after it was forbidden.
type guarded struct {
	mu        sync.Mutex // guards what follows
	n         int
	forbidden bool
	late      bool
}

func (g *guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n += len(p)
	g.late = g.late || g.forbidden
	return len(p), nil
}

func (g *guarded) forbid() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forbidden = true
}

func (g *guarded) calledLate() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.late
}

func (g *guarded) length() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}
