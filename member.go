package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
)

// A member is one sandbox of a Manager, from the moment its key is taken.
type member struct {
	m     *Manager
	key   Key
	id    string
	owner *owner

	// Set before there is a box.
	opts       CreateOptions // as given
	idleTime   time.Duration // 0 is no bound
	maxRunning int           // 0 is no bound
	own        *semaphore.Weighted

	ready   chan struct{}           // closed when the creation is over
	box     *box                    // once ready; nil when the creation failed
	err     error                   // once ready
	abandon context.CancelCauseFunc // gives the creation up, and says why

	// Guarded by m.mu.
	gone    bool // forgotten by m
	waiting int  // callers that wait for ready
	running int
	used    time.Time // when it was last asked for, or an execution ended
	timer   *time.Timer
}

// newMemberLocked returns a member that its owner has. forgetLocked takes it from him.
func (m *Manager) newMemberLocked(key Key, id string) *member {
	o := m.ownerLocked(key.Owner)
	o.members++
	return &member{
		owner: o,
		m:     m,
		key:   key,
		id:    id,
		ready: make(chan struct{}),
		used:  time.Now(),
	}
}

// addLocked takes key for a sandbox that is about to be created. The context it
// returns is ctx, until the creation is abandoned.
func (m *Manager) addLocked(ctx context.Context, key Key) (*member, context.Context, error) {
	id := newID("sbx_")
	if key.Name == "" {
		key.Name = id
	}
	share := m.opts.share(key.Owner, m.opts.MaxSandboxesPerOwner)
	switch {
	case m.closed:
		return nil, nil, ErrClosed
	case m.members[key] != nil:
		return nil, nil, ErrExists
	case m.opts.MaxSandboxes > 0 && len(m.members)+len(m.leaving) >= m.opts.MaxSandboxes:
		return nil, nil, &LimitError{Limit: LimitSandboxes, Max: m.opts.MaxSandboxes}
	case share > 0 && m.owners[key.Owner] != nil && m.owners[key.Owner].members >= share:
		return nil, nil, &LimitError{Limit: LimitSandboxesPerOwner, Max: share}
	}
	mb := m.newMemberLocked(key, id)
	ctx, mb.abandon = context.WithCancelCause(ctx)
	m.members[key] = mb
	return mb, ctx, nil
}

// join returns the member of that key for a caller that will wait for it, and
// begins to create it when there is none alive.
func (m *Manager) join(ctx context.Context, key Key, options func(context.Context) (*CreateOptions, error)) (*member, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	mb := m.members[key]
	if mb != nil && mb.dead() {
		m.replaceLocked(mb)
		mb = nil
	}
	if mb == nil {
		added, ctx, err := m.addLocked(context.WithoutCancel(ctx), key)
		if err != nil {
			return nil, err
		}
		mb = added
		m.background.Go(func() { m.create(ctx, mb, options) })
	}
	mb.used = time.Now()
	mb.waiting++
	return mb, nil
}

// leave is for a caller that does not wait for mb any more. When none is left, the
// creation is given up.
func (m *Manager) leave(mb *member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mb.waiting--
	if mb.waiting == 0 && !mb.created() && m.members[mb.key] == mb && !m.closed {
		mb.abandon(nil)
		m.replaceLocked(mb)
	}
}

// create makes the sandbox of mb, and ends with ready closed.
func (m *Manager) create(ctx context.Context, mb *member, options func(context.Context) (*CreateOptions, error)) {
	defer mb.abandon(nil)
	defer close(mb.ready)
	defer func() {
		if mb.box == nil && mb.err == nil { // options has ended the goroutine
			m.fail(mb, errNoOptions)
		}
	}()
	var opts CreateOptions
	if options != nil {
		o, err := m.ask(ctx, mb, options)
		if err != nil {
			m.fail(mb, given(ctx, err))
			return
		}
		if o != nil {
			opts = *o
		}
	}
	if opts.Config.Lifetime == 0 {
		opts.Config.Lifetime = m.opts.Lifetime
	}
	b, err := newBox(ctx, m.backend, mb.id, mb.setOptions(opts), mb)
	if err != nil {
		m.fail(mb, given(ctx, err))
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	mb.box = b
	mb.scheduleLocked()
}

// ask calls options. Its panic is an error until it reaches who waits.
func (m *Manager) ask(ctx context.Context, mb *member, options func(context.Context) (*CreateOptions, error)) (o *CreateOptions, err error) {
	caught := protect(func() { o, err = options(ctx) })
	if caught == nil {
		return o, err
	}
	logError(m.opts.Logger, "the function that gives the options has panicked", "owner", mb.key.Owner,
		"namespace", mb.key.Namespace, "name", mb.key.Name, "panic", caught.value, "stack", string(caught.stack))
	return nil, caught
}

// errNoOptions is the error of a creation whose options did not return.
var errNoOptions = &Error{Op: "create", Err: errors.New("the function that gives the options has ended its goroutine")}

// given returns what a creation failed for with err: when the manager was closed
// meanwhile, that is why.
func given(ctx context.Context, err error) error {
	if context.Cause(ctx) == ErrClosed && !errors.Is(err, ErrClosed) {
		return &Error{Op: "create", Err: fmt.Errorf("%w: %w", ErrClosed, err)}
	}
	return err
}

// setOptions sets what mb has of its own, before there is a box. It returns those of
// the box.
func (mb *member) setOptions(o CreateOptions) Options {
	m := &mb.m.opts
	mb.opts = o
	mb.idleTime = orDefault(o.IdleTime, m.IdleTime)
	mb.maxRunning = orDefault(o.MaxRunning, m.MaxRunningPerSandbox)
	mb.own = newSlots(mb.maxRunning)
	return Options{Config: o.Config, Records: cmp.Or(o.Records, m.Records), Logger: m.Logger}
}

// fail ends a creation without a sandbox.
func (m *Manager) fail(mb *member, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mb.err = err
	m.forgetLocked(mb)
}

// forgetLocked forgets mb, of which nothing is left.
func (m *Manager) forgetLocked(mb *member) {
	delete(m.leaving, mb)
	if m.members[mb.key] == mb {
		delete(m.members, mb.key)
	}
	if mb.gone {
		return
	}
	mb.gone = true
	if mb.owner.members--; mb.owner.members == 0 {
		delete(m.owners, mb.key.Owner)
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
	if caught, ok := mb.err.(*panicError); ok {
		panic(caught.value)
	}
	if mb.err != nil {
		return nil, mb.err
	}
	return mb.box, nil
}
