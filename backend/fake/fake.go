// Package fake is a backend for unit tests: no command is really run, and all
// else is as with a real one. What a command does is a Go function, the
// [Handler]. It writes, reads, sleeps, spawns, ignores signals, exits and dies
// through its [Process], and it meets what a real command meets: a full pipe
// holds it, a kill ends it in the middle of a call, a background child keeps the
// output open.
//
//	b := fake.New(nil)
//	b.Handle("make test", fake.Result(2, "", "no rule to make target\n"))
//	b.Handle("sleep 60", func(p *fake.Process) int {
//		p.Sleep(time.Minute)
//		return 0
//	})
//
// What goes wrong around a command is set up in [Options] (a creation or a start
// that fails or is slow) or done by the handler (a lost connection, an exit that
// is never reported, a process that a kill does not reach). [Backend.Calls] tells
// what was asked of the backend.
//
// The output of a command reaches its sinks in the order in which the command
// wrote it, over both streams.
//
// The package takes all time from package time and blocks on channels and
// conditions only, so it works in a testing/synctest bubble, where an hour of a
// handler's sleep passes at once. Make the backend and use it in the same bubble.
// Close sandboxes and managers before the bubble ends; after the backend's own Close
// no goroutine is left.
package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/sandbox-go/sandbox/backend"
)

var _ backend.Backend = (*Backend)(nil)

// Options are how a Backend differs from one that always succeeds at once. Nil
// and the zero value are a backend that honours every setting of a Config. The
// functions may be called concurrently.
type Options struct {
	// Info is what the backend says of itself. Nil is a backend named "fake" that
	// promises everything.
	Info *backend.Info

	// Create is called for every sandbox before it exists. It may take its time;
	// its error is the creation's. To refuse a setting, return an error that
	// wraps errors.ErrUnsupported. Nil lets all be created.
	Create func(ctx context.Context, cfg *backend.Config) error

	// Start is called for every command before it begins. It may take its time;
	// its error is the start's: a *backend.StartError for a command that cannot be
	// started, any other for an outcome that is unknown. Nil lets all be started.
	Start func(ctx context.Context, cmd *Command) error

	// Destroy is called for every sandbox before it is removed. It may take its
	// time; its error is the removal's, and the sandbox stays. Nil lets all be
	// removed.
	Destroy func(ctx context.Context, sandbox string) error
}

// A Backend is a scripted backend. Its methods may be called concurrently.
type Backend struct {
	opts Options

	mu        sync.Mutex // guards what follows
	rules     []rule
	instances map[string]*instance
	calls     []Call
	closed    bool
}

// New returns a Backend without a script. Nil for opts is the default; opts is
// copied.
func New(opts *Options) *Backend {
	b := &Backend{instances: make(map[string]*instance)}
	if opts != nil {
		b.opts = *opts
	}
	return b
}

// Info returns Options.Info, or what a backend says that promises everything.
func (b *Backend) Info() backend.Info {
	if b.opts.Info != nil {
		return *b.opts.Info
	}
	return backend.Info{
		Name:             "fake",
		Containment:      backend.ContainmentSupervisor,
		DedicatedUser:    true,
		DedicatedFiles:   true,
		DedicatedNetwork: true,
		DedicatedKernel:  true,
		ProtectedAgent:   true,
		OOM:              true,
		Terminal:         true,
		Files:            true,
		Ports:            true,
		Egress:           true,
		Caveats:          []string{"No command is really run."},
	}
}

// Create makes a sandbox.
func (b *Backend) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	i, err := b.create(ctx, cfg)
	b.record(Call{Op: OpCreate, Sandbox: cfg.ID, Config: copyConfig(cfg), Err: err})
	if err != nil {
		return nil, err
	}
	return i, nil
}

func (b *Backend) create(ctx context.Context, cfg *backend.Config) (*instance, error) {
	if b.opts.Create != nil {
		if err := b.opts.Create(ctx, cfg); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errors.New("fake: backend is closed")
	}
	if b.instances[cfg.ID] != nil {
		return nil, fmt.Errorf("fake: there is a sandbox %q already", cfg.ID)
	}
	i := newInstance(b, cfg.ID)
	b.instances[cfg.ID] = i
	return i, nil
}

// Sandboxes returns the ids of the sandboxes that exist, sorted.
func (b *Backend) Sandboxes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.instances))
}

// Lose makes the sandbox of that id die under its owner: the outcome of what runs
// there is unknown, and nothing can be started any more. It does nothing when
// there is none.
func (b *Backend) Lose(sandbox string) {
	b.mu.Lock()
	i := b.instances[sandbox]
	b.mu.Unlock()
	if i != nil {
		i.lose()
	}
}

// Close destroys the sandboxes that are left.
func (b *Backend) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	left := slices.Collect(maps.Values(b.instances))
	b.mu.Unlock()
	var errs []error
	for _, i := range left {
		i.lose()
		errs = append(errs, i.Destroy(ctx))
	}
	return errors.Join(errs...)
}

func (b *Backend) forget(i *instance) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.instances[i.id] == i {
		delete(b.instances, i.id)
	}
}
