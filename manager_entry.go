package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
)

// An entry is one sandbox of a Manager, from the moment its key is taken.
type entry struct {
	m     *Manager
	key   Key
	id    string
	owner *owner

	// Set before there is a sandbox.
	opts       CreateOptions // as given
	idleTime   time.Duration // 0 is no bound
	maxRunning int           // 0 is no bound
	own        *semaphore.Weighted
	untold     bool // the observer is not told of it

	ready        chan struct{}           // closed when the creation is over
	box          *sandboxImpl            // once ready; nil when the creation failed
	err          error                   // once ready
	cancelCreate context.CancelCauseFunc // gives the creation up, and says why

	// Guarded by m.mu.
	gone     bool // forgotten by m
	waiting  int  // callers that wait for ready
	running  int
	used     time.Time // when it was last asked for, or an execution ended
	timer    *time.Timer
	removing bool // by itself
	failed   bool // a removal by itself has
}

// newEntryLocked returns an entry that its owner has. forgetLocked takes it from him.
func (m *Manager) newEntryLocked(key Key, id string) *entry {
	o := m.ownerLocked(key.Owner)
	o.members++
	return &entry{
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
func (m *Manager) addLocked(ctx context.Context, key Key) (*entry, context.Context, error) {
	id := newID("sbx_")
	if key.Name == "" {
		key.Name = id
	}
	share := m.opts.share(key.Owner, m.opts.MaxSandboxesPerOwner)
	switch {
	case m.closed:
		return nil, nil, ErrClosed
	case m.entries[key] != nil:
		return nil, nil, ErrExists
	case m.opts.MaxSandboxes > 0 && len(m.entries)+len(m.removing)-m.givingWayLocked() >= m.opts.MaxSandboxes:
		return nil, nil, &LimitError{Limit: LimitSandboxes, Max: m.opts.MaxSandboxes}
	case share > 0 && m.owners[key.Owner] != nil && m.owners[key.Owner].members >= share:
		return nil, nil, &LimitError{Limit: LimitSandboxesPerOwner, Max: share}
	}
	en := m.newEntryLocked(key, id)
	ctx, en.cancelCreate = context.WithCancelCause(ctx)
	m.entries[key] = en
	return en, ctx, nil
}

// join returns the entry of that key for a caller that will wait for it, and
// begins to create it when there is none alive.
func (m *Manager) join(ctx context.Context, key Key, options func(context.Context) (*CreateOptions, error)) (*entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	en := m.entries[key]
	if en != nil && en.dead() {
		m.replaceLocked(en)
		en = nil
	}
	if en == nil {
		added, ctx, err := m.addLocked(context.WithoutCancel(ctx), key)
		if err != nil {
			return nil, err
		}
		en = added
		m.background.Go(func() { m.create(ctx, en, options) })
	}
	en.used = time.Now()
	en.waiting++
	return en, nil
}

// leave is for a caller that does not wait for en any more. When none is left, the
// creation is given up.
func (m *Manager) leave(en *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	en.waiting--
	if en.waiting == 0 && !en.created() && m.entries[en.key] == en && !m.closed {
		en.cancelCreate(nil)
		m.replaceLocked(en)
	}
}

// create makes the sandbox of en, and ends with ready closed.
func (m *Manager) create(ctx context.Context, en *entry, options func(context.Context) (*CreateOptions, error)) {
	defer en.cancelCreate(nil)
	defer close(en.ready)
	defer func() {
		if en.box == nil && en.err == nil { // options has ended the goroutine
			m.fail(en, errNoOptions)
		}
	}()
	var opts CreateOptions
	if options != nil {
		o, err := m.ask(ctx, en, options)
		if err != nil {
			m.fail(en, given(ctx, err))
			return
		}
		if o != nil {
			opts = *o
		}
	}
	if opts.Config.Lifetime == 0 {
		opts.Config.Lifetime = m.opts.Lifetime
	}
	b, err := m.newSandbox(ctx, en, en.setOptions(opts))
	if err != nil {
		m.fail(en, given(ctx, err))
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	en.box = b
	en.scheduleLocked()
}

// newSandbox returns the sandbox of en: a warm one if one fits, or a new one.
func (m *Manager) newSandbox(ctx context.Context, en *entry, opts Options) (*sandboxImpl, error) {
	if err := validateConfig(&opts.Config); err != nil {
		return nil, &Error{Op: "create", Err: err}
	}
	if w := m.takeWarm(en, &opts.Config); w != nil {
		opts.Config = cloneConfig(opts.Config, w.cfg.ID)
		sb := sandboxOf(m.backend.Info(), w.instance, w.created, opts, en)
		if err := sb.openEgress(ctx); err != nil {
			sb.end()
			return nil, &Error{Op: "create", Err: errors.Join(err, discardSandbox(w.instance))}
		}
		sb.begin(ctx, Observer.SandboxCreated)
		return sb, nil
	}
	if err := m.makeRoom(ctx); err != nil {
		return nil, err
	}
	return newSandbox(ctx, m.backend, en.id, opts, en)
}

// ask calls options. Its panic is an error until it reaches who waits.
func (m *Manager) ask(ctx context.Context, en *entry, options func(context.Context) (*CreateOptions, error)) (o *CreateOptions, err error) {
	caught := protect(func() { o, err = options(ctx) })
	if caught == nil {
		return o, err
	}
	logError(m.opts.Logger, "the function that gives the options has panicked", "owner", en.key.Owner,
		"namespace", en.key.Namespace, "name", en.key.Name, "panic", caught.value, "stack", string(caught.stack))
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

// setOptions sets what en has of its own, before there is a sandbox. It returns those of
// the sandbox.
func (en *entry) setOptions(o CreateOptions) Options {
	m := &en.m.opts
	en.opts = o
	en.idleTime = orDefault(o.IdleTime, m.IdleTime)
	en.maxRunning = orDefault(o.MaxRunning, m.MaxRunningPerSandbox)
	en.own = newSlots(en.maxRunning)
	return Options{Config: o.Config, Records: cmp.Or(o.Records, m.Records), Egress: m.Egress, Logger: m.Logger}
}

// fail ends a creation without a sandbox.
func (m *Manager) fail(en *entry, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	en.err = err
	m.forgetLocked(en)
}

// forgetLocked forgets en, of which nothing is left.
func (m *Manager) forgetLocked(en *entry) {
	delete(m.removing, en)
	if m.entries[en.key] == en {
		delete(m.entries, en.key)
	}
	if en.gone {
		return
	}
	en.gone = true
	m.roomLocked()
	if en.owner.members--; en.owner.members == 0 {
		delete(m.owners, en.key.Owner)
	}
}

// created reports whether the creation has succeeded.
func (en *entry) created() bool {
	select {
	case <-en.ready:
		return en.box != nil
	default:
		return false
	}
}

// dead reports whether the sandbox was created and can run nothing any more.
func (en *entry) dead() bool { return en.created() && en.box.usable() != nil }

func (en *entry) result() (Sandbox, error) {
	if caught, ok := en.err.(*panicError); ok {
		panic(caught.value)
	}
	if en.err != nil {
		return nil, en.err
	}
	return en.box, nil
}
