package sandbox

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// A member is one sandbox of a Manager, from the moment its key is taken.
type member struct {
	m     *Manager
	key   Key
	id    string
	turns *semaphore.Weighted

	ready   chan struct{} // closed when the creation is over
	box     *box          // once ready; nil when the creation failed
	err     error         // once ready
	abandon context.CancelFunc

	// Guarded by m.mu.
	waiting int // callers that wait for ready
	running int
	used    time.Time // when it was last asked for, or an execution ended
	timer   *time.Timer
}

// addLocked takes key for a sandbox that is about to be created.
func (m *Manager) addLocked(key Key) (*member, error) {
	id := newID("sbx_")
	if key.Name == "" {
		key.Name = id
	}
	switch {
	case m.closed:
		return nil, ErrClosed
	case m.members[key] != nil:
		return nil, ErrExists
	case m.opts.MaxSandboxes > 0 && len(m.members)+len(m.leaving) >= m.opts.MaxSandboxes:
		return nil, &LimitError{Limit: "sandboxes", Max: m.opts.MaxSandboxes}
	}
	mb := &member{
		m:       m,
		key:     key,
		id:      id,
		turns:   newTurns(m.opts.MaxRunningPerSandbox),
		ready:   make(chan struct{}),
		abandon: func() {},
		used:    time.Now(),
	}
	m.members[key] = mb
	return mb, nil
}

// create makes the sandbox of mb, and ends with ready closed.
func (m *Manager) create(ctx context.Context, mb *member, config func(context.Context) (*Config, error)) {
	defer mb.abandon()
	defer close(mb.ready)
	var cfg Config
	if config != nil {
		c, err := config(ctx)
		if err != nil {
			m.fail(mb, err)
			return
		}
		if c != nil {
			cfg = *c
		}
	}
	if cfg.Lifetime == 0 {
		cfg.Lifetime = m.opts.Lifetime
	}
	opts := Options{Records: m.opts.Records, Logger: m.opts.Logger}
	if observe := m.opts.Observe; observe != nil {
		opts.Observe = func(e *Execution) { observe(mb.key, e) }
	}
	b, err := newBox(ctx, m.backend, mb.id, &cfg, opts, mb)
	if err != nil {
		m.fail(mb, err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	mb.box = b
	mb.scheduleLocked()
}

// fail ends a creation without a sandbox.
func (m *Manager) fail(mb *member, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mb.err = err
	delete(m.leaving, mb)
	if m.members[mb.key] == mb {
		delete(m.members, mb.key)
	}
}

// created reports whether the creation has succeeded.
func (mb *member) created() bool {
	select {
	case <-mb.ready:
		return mb.box != nil
	default:
		return false
	}
}

// dead reports whether the sandbox was created and can run nothing any more.
func (mb *member) dead() bool { return mb.created() && mb.box.usable() != nil }

func (mb *member) result() (Sandbox, error) {
	if mb.err != nil {
		return nil, mb.err
	}
	return mb.box, nil
}
