package sandbox

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/sandbox-go/sandbox/backend"
)

// A Key names a sandbox of a Manager. The same name of another owner or in another
// namespace is another sandbox.
type Key struct {
	Owner     string // whose it is: the account, not the credential; empty has no share of the limits
	Namespace string // keeps names apart that may be the same, such as those of two APIs; may be empty
	Name      string // its name there
}

// ManagerOptions are a Manager's limits. Nil and the zero value are the
// defaults; a negative number turns a limit off.
//
// A limit per owner is the most that the sandboxes of one Key.Owner have of what all
// have together, so that others find some left. 0 is a quarter, rounded up, and none
// where the limit itself is off. It does not hold for the empty owner: a service that
// names no owners has all for itself.
type ManagerOptions struct {
	MaxSandboxes         int           // sandboxes at once; 0 is 1,000
	MaxSandboxesPerOwner int           // 0 is a quarter of MaxSandboxes
	IdleTime             time.Duration // a sandbox that ran nothing for so long is removed; 0 is 30 min
	Lifetime             time.Duration // a sandbox is removed at this age; 0 is no bound

	MaxRunning           int           // executions at once; 0 is no bound
	MaxRunningPerOwner   int           // 0 is a quarter of MaxRunning
	MaxRunningPerSandbox int           // 0 is no bound
	MaxWait              time.Duration // how long a start waits for its slot; 0 does not wait
	MaxWaiting           int           // starts that wait at once; 0 is no bound
	MaxWaitingPerOwner   int           // 0 is a quarter of MaxWaiting

	Records int // finished executions kept per sandbox; 0 is 100

	// RecordsBytes is how much output all records keep together; 0 is 256 MiB.
	// Where it is not enough, the oldest give way of the owner that keeps the most.
	RecordsBytes int64

	// CloseTime bounds the removal of a sandbox that the manager removes by
	// itself; 0 is 30 s.
	CloseTime time.Duration

	// Egress is how connections are made that the Config.Egress of a sandbox allows.
	Egress EgressOptions

	// Warm are sandboxes that are made in the background before they are asked for: a
	// creation takes one that is ready, and another is made in its place. One that dies,
	// or has used up a tenth of its Lifetime, which begins when it is made, is replaced.
	// Those that are ready count for MaxSandboxes and for no owner. Where they are in the
	// way of a sandbox that is asked for, they are removed for it. A backend cannot be
	// told whose a warm sandbox has become: it does not outlive the process, and Recover
	// removes those that an earlier one has left. Empty is none.
	Warm []Warm

	// Observer is told what happens to all sandboxes and their executions. Nil is
	// nobody.
	Observer Observer

	// Logger takes errors that no caller can be given, such as that of a removal
	// in the background. Nil is silent.
	Logger *slog.Logger
}

// CreateOptions are what one sandbox of a Manager is made of, and where it differs
// from the others. The zero value is the defaults.
type CreateOptions struct {
	// Config is what the backend makes the sandbox of. Its ID is not used. Without a
	// Lifetime it has the manager's.
	Config Config

	IdleTime   time.Duration // 0 is the manager's; negative is no bound
	MaxRunning int           // executions at once; 0 is the manager's MaxRunningPerSandbox; negative is no bound
	Records    int           // finished executions kept; 0 is the manager's; negative is none
}

// A Manager holds many sandboxes of one backend by key: it creates them on first
// use, limits them, lets them expire, and removes them all in the end. Its methods
// may be called concurrently.
type Manager struct {
	backend  backend.Backend
	opts     ManagerOptions // defaults filled in; 0 is no limit
	slots    *semaphore.Weighted
	records  *budget
	observed events
	stopWarm context.CancelFunc

	mu         sync.Mutex // guards all below
	closed     bool
	entries    map[Key]*entry
	owners     map[string]*owner   // of those, and of those that are being removed
	waiting    int                 // starts that wait for their slot
	warm       int                 // warm sandboxes, ready or being made
	ready      []*warm             // oldest first
	room       chan struct{}       // closed when there is room for more, or more are ready
	removing   map[*entry]struct{} // replaced, and not removed yet
	background sync.WaitGroup      // removals and creations in the background
}

// NewManager returns a Manager of b's sandboxes. Nil opts are the defaults; they are
// copied. It does not own b: close the manager first, then the backend.
func NewManager(b Backend, opts *ManagerOptions) *Manager {
	m := &Manager{
		room:     make(chan struct{}),
		backend:  b,
		entries:  make(map[Key]*entry),
		owners:   make(map[string]*owner),
		removing: make(map[*entry]struct{}),
	}
	if opts != nil {
		m.opts = *opts
	}
	m.opts.fillIn()
	m.slots = newSlots(m.opts.MaxRunning)
	m.records = newBudget(m.opts.RecordsBytes)
	m.observed.to, m.observed.log = m.opts.Observer, m.opts.Logger
	m.startWarm()
	return m
}

func (o *ManagerOptions) fillIn() {
	o.MaxSandboxes = orDefault(o.MaxSandboxes, 1000)
	o.IdleTime = orDefault(o.IdleTime, 30*time.Minute)
	o.Lifetime = orDefault(o.Lifetime, 0)
	o.MaxRunning = orDefault(o.MaxRunning, 0)
	o.MaxRunningPerSandbox = orDefault(o.MaxRunningPerSandbox, 0)
	o.MaxWait = orDefault(o.MaxWait, 0)
	o.MaxWaiting = orDefault(o.MaxWaiting, 0)
	o.MaxSandboxesPerOwner = orDefault(o.MaxSandboxesPerOwner, quarter(o.MaxSandboxes))
	o.MaxRunningPerOwner = orDefault(o.MaxRunningPerOwner, quarter(o.MaxRunning))
	o.MaxWaitingPerOwner = orDefault(o.MaxWaitingPerOwner, quarter(o.MaxWaiting))
	o.RecordsBytes = orDefault(o.RecordsBytes, 256<<20)
	o.CloseTime = orDefault(o.CloseTime, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// quarter returns a quarter of n, rounded up.
func quarter(n int) int { return (n + 3) / 4 }

// orDefault returns what a limit means: 0 for none.
func orDefault[T int | int64 | time.Duration](v, def T) T {
	switch {
	case v < 0:
		return 0
	case v == 0:
		return def
	default:
		return v
	}
}

// Create makes a sandbox. With an empty key.Name its id is its name. Nil opts are the
// defaults; they are copied. The context covers the creation only. The error wraps
// ErrExists when there is one of that key, ErrLimit, or ErrClosed, also when the manager
// is closed meanwhile.
func (m *Manager) Create(ctx context.Context, key Key, opts *CreateOptions) (Sandbox, error) {
	m.mu.Lock()
	en, ctx, err := m.addLocked(ctx, key)
	m.mu.Unlock()
	if err != nil {
		return nil, &Error{Op: "create", Err: err}
	}
	m.create(ctx, en, func(context.Context) (*CreateOptions, error) { return opts, nil })
	return en.result()
}

// Get returns the sandbox of that key, or an error that wraps ErrNotFound.
func (m *Manager) Get(key Key) (Sandbox, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	en := m.entries[key]
	if en == nil || !en.created() {
		return nil, &Error{Op: "find", Sandbox: key.Name, Err: ErrNotFound}
	}
	en.used = time.Now()
	return en.result()
}

// GetOrCreate returns the sandbox of that key, and makes it when there is none or
// when the one there was has died. However many callers ask at once, one
// creation happens; the context covers the waiting for it, and it is given up
// when nobody waits any more. Options is called only when a sandbox is made, to say
// how; its error is returned as it is, and its panic is that of every caller that
// waits. Nil options, and what returns nil, are the defaults.
func (m *Manager) GetOrCreate(ctx context.Context, key Key, options func(context.Context) (*CreateOptions, error)) (Sandbox, error) {
	en, err := m.join(ctx, key, options)
	if err != nil {
		return nil, &Error{Op: "create", Err: err}
	}
	select {
	case <-en.ready:
		return en.result()
	case <-ctx.Done():
		m.leave(en)
		return nil, &Error{Op: "create", Err: ctx.Err()}
	}
}

// All returns the sandboxes that there are when the iteration begins, oldest first.
// The loop may call the manager's methods.
func (m *Manager) All() iter.Seq2[Key, Sandbox] {
	return m.list(func(Key) bool { return true })
}

// OwnedBy is All for the sandboxes of one owner.
func (m *Manager) OwnedBy(owner string) iter.Seq2[Key, Sandbox] {
	return m.list(func(key Key) bool { return key.Owner == owner })
}

func (m *Manager) list(match func(Key) bool) iter.Seq2[Key, Sandbox] {
	return func(yield func(Key, Sandbox) bool) {
		var entries []*entry
		m.mu.Lock()
		for key, en := range m.entries {
			if match(key) && en.created() {
				entries = append(entries, en)
			}
		}
		m.mu.Unlock()
		slices.SortFunc(entries, func(a, b *entry) int {
			return cmp.Or(a.box.created.Compare(b.box.created), strings.Compare(a.id, b.id))
		})
		for _, en := range entries {
			if !yield(en.key, en.box) {
				return
			}
		}
	}
}

// Remove closes the sandbox of that key and forgets it. The error wraps
// ErrNotFound when there is none. After another error it is still there and
// Remove may be called again.
func (m *Manager) Remove(ctx context.Context, key Key) error {
	m.mu.Lock()
	en := m.entries[key]
	m.mu.Unlock()
	if en == nil {
		return &Error{Op: "remove", Sandbox: key.Name, Err: ErrNotFound}
	}
	return m.remove(ctx, en)
}

// Close removes all sandboxes in parallel and returns every failure, after which
// it may be called again. It waits for the Observer as Sandbox.Close does. From the
// first call on, Create and GetOrCreate answer ErrClosed.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	m.endWarmLocked()
	all := slices.Concat(slices.Collect(maps.Values(m.entries)), slices.Collect(maps.Keys(m.removing)))
	for _, en := range all {
		en.cancelCreate(ErrClosed)
	}
	m.mu.Unlock()

	failures := &multierror.Error{ErrorFormat: inOneLine}
	var mu sync.Mutex // guards failures
	var group errgroup.Group
	group.SetLimit(closesAtOnce)
	for _, en := range all {
		group.Go(func() error {
			if err := m.remove(ctx, en); err != nil {
				mu.Lock()
				defer mu.Unlock()
				multierror.Append(failures, err)
			}
			return nil
		})
	}
	group.Wait()
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		m.background.Wait()
	}()
	select {
	case <-idle:
	case <-ctx.Done():
		multierror.Append(failures, ctx.Err())
	}
	m.observed.wait(ctx)
	return failures.ErrorOrNil()
}

// inOneLine is the text of several errors.
func inOneLine(errs []error) string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// closesAtOnce bounds how many sandboxes are removed at the same time.
const closesAtOnce = 32
