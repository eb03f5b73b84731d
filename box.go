package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// A box is a Sandbox.
type box struct {
	id       string
	cfg      Config
	opts     Options
	keeper   keeper
	backend  backend.Info
	instance backend.Instance
	created  time.Time

	life    context.Context // ends when nothing can run here any more
	end     context.CancelFunc
	closing chan struct{} // of capacity 1: held by the Close at work

	mu       sync.Mutex // guards all below
	status   SandboxStatus
	execs    map[string]*handle
	enlisted int                // how many there have been
	keys     map[string]*handle // of those with a Command.Key, by it
	finished []*handle          // those of execs that are over, oldest first
}

// A keeper is what a Manager does for its sandboxes.
type keeper interface {
	// label adds to a valid configuration what the keeper itself is to find in it
	// when the sandbox is taken up later.
	label(*Config)

	// admit waits for the turn of one more execution. The caller calls done when
	// it is over.
	admit(ctx context.Context) (done func(), err error)

	// recorded and forgotten tell that a finished execution is kept, and no
	// longer is.
	recorded(*handle)
	forgotten(*handle)
}

// unmanaged is the keeper of a sandbox without a Manager.
type unmanaged struct{}

func (unmanaged) label(*Config)                         {}
func (unmanaged) admit(context.Context) (func(), error) { return func() {}, nil }
func (unmanaged) recorded(*handle)                      {}
func (unmanaged) forgotten(*handle)                     {}

const defaultRecords = 100

// newBox makes a sandbox of that id.
func newBox(ctx context.Context, b backend.Backend, id string, cfg *Config, opts Options, k keeper) (*box, error) {
	var own Config
	if cfg != nil {
		own = *cfg
	}
	own.ID = id
	own.Env = maps.Clone(own.Env)
	own.Labels = maps.Clone(own.Labels)
	own.Mounts = slices.Clone(own.Mounts)
	if err := validateConfig(&own); err != nil {
		return nil, &Error{Op: "create", Err: err}
	}
	k.label(&own)
	instance, err := b.Create(ctx, &own)
	if err != nil {
		return nil, &Error{Op: "create", Err: err}
	}
	return openBox(b.Info(), own, instance, time.Now(), opts, k), nil
}

// openBox makes a sandbox of an instance that exists.
func openBox(info backend.Info, cfg Config, instance backend.Instance, created time.Time, opts Options, k keeper) *box {
	if opts.Records == 0 {
		opts.Records = defaultRecords
	}
	life, end := context.WithCancel(context.Background())
	sb := &box{
		id:       cfg.ID,
		cfg:      cfg,
		opts:     opts,
		keeper:   k,
		backend:  info,
		instance: instance,
		created:  created,
		life:     life,
		end:      end,
		closing:  make(chan struct{}, 1),
		status:   SandboxRunning,
		execs:    make(map[string]*handle),
		keys:     make(map[string]*handle),
	}
	go sb.watch()
	return sb
}

// newID returns prefix and 26 letters and digits that nobody can guess.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// watch notices that the sandbox has died.
func (sb *box) watch() {
	select {
	case <-sb.instance.Gone():
		sb.retire(SandboxFailed)
	case <-sb.life.Done():
	}
}

// retire ends the sandbox's running life, once.
func (sb *box) retire(status SandboxStatus) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if sb.status == SandboxRunning {
		sb.status = status
		sb.end()
	}
}

func (sb *box) ID() string            { return sb.id }
func (sb *box) Gone() <-chan struct{} { return sb.life.Done() }
func (sb *box) sealed()               {}

func (sb *box) Info() Info {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	info := Info{ID: sb.id, Status: sb.status, Backend: sb.backend, Labels: userLabels(sb.cfg.Labels), CreatedAt: sb.created}
	if sb.cfg.Lifetime > 0 {
		info.ExpiresAt = sb.created.Add(sb.cfg.Lifetime)
	}
	return info
}

func (sb *box) Run(ctx context.Context, cmd Command) (*Execution, error) {
	h, _, err := sb.start(ctx, cmd, false)
	if err != nil {
		return nil, err
	}
	return h.Wait(context.WithoutCancel(ctx))
}

func (sb *box) Start(ctx context.Context, cmd Command) (Exec, error) {
	h, _, err := sb.start(ctx, cmd, false)
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (sb *box) Follow(ctx context.Context, cmd Command) (Exec, Stream, error) {
	h, r, err := sb.start(ctx, cmd, true)
	if err != nil {
		return nil, nil, err
	}
	return h, r, nil
}

// start starts cmd, and opens a reader at its first byte if it is to be followed.
func (sb *box) start(ctx context.Context, cmd Command, follow bool) (h *handle, r *reader, err error) {
	defer func() {
		if err != nil {
			err = &Error{Op: "start", Sandbox: sb.id, Err: err}
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if err := cmd.Validate(); err != nil {
		return nil, nil, err
	}
	if err := cmd.validateSize(sb.cfg.Env); err != nil {
		return nil, nil, err
	}
	if cmd.Terminal != nil && !sb.backend.Terminal {
		return nil, nil, fmt.Errorf("a terminal: %w", errors.ErrUnsupported)
	}
	if known, err := sb.known(cmd.Key); known != nil || err != nil {
		return sb.join(known, follow, err)
	}
	done, err := sb.keeper.admit(ctx)
	if err != nil {
		return nil, nil, err
	}
	h = newHandle(ctx, sb, cmd, done)
	if known, err := sb.enlist(h); known != nil || err != nil {
		done()
		return sb.join(known, follow, err)
	}
	h, r, err = sb.join(h, follow, nil)
	h.start(cmd.Stdin)
	return h, r, err
}

// join opens a reader at the first byte of h if it is to be followed.
func (sb *box) join(h *handle, follow bool, err error) (*handle, *reader, error) {
	if err != nil || !follow {
		return h, nil, err
	}
	r, err := h.out.open(Offsets{})
	return h, r, err
}

// usable says why nothing can run here, or nil.
func (sb *box) usable() error {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	return sb.usableLocked()
}

func (sb *box) usableLocked() error {
	switch sb.status {
	case SandboxRunning:
		return nil
	case SandboxFailed:
		return ErrGone
	default:
		return ErrClosed
	}
}

// known returns the execution of that key that is remembered, or nil.
func (sb *box) known(key string) (*handle, error) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	return sb.knownLocked(key)
}

func (sb *box) knownLocked(key string) (*handle, error) {
	if key != "" && sb.keys[key] != nil {
		return sb.keys[key], nil
	}
	return nil, sb.usableLocked()
}

// enlist makes h one of the sandbox's executions, so that Close ends it. When
// there is one of its key already, it returns that instead.
func (sb *box) enlist(h *handle) (known *handle, err error) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if known, err := sb.knownLocked(h.cmd.Key); known != nil || err != nil {
		return known, err
	}
	sb.execs[h.id] = h
	sb.enlisted++
	h.number = sb.enlisted
	if h.cmd.Key != "" {
		sb.keys[h.cmd.Key] = h
	}
	return nil, nil
}

// record keeps h, which is over, and lets go of the oldest if it is one too many.
func (sb *box) record(h *handle) {
	sb.keeper.recorded(h) // first, so that whoever drops h finds it there
	sb.mu.Lock()
	if sb.execs[h.id] == h { // it may have been dropped already
		sb.finished = append(sb.finished, h)
	}
	var drop []*handle
	if n := len(sb.finished) - max(sb.opts.Records, 0); n > 0 {
		drop = slices.Clone(sb.finished[:n])
	}
	sb.mu.Unlock()
	for _, old := range drop {
		sb.forget(old)
		sb.keeper.forgotten(old)
	}
}

// forget lets go of a finished execution.
func (sb *box) forget(h *handle) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	delete(sb.execs, h.id)
	if sb.keys[h.cmd.Key] == h {
		delete(sb.keys, h.cmd.Key)
	}
	sb.finished = slices.DeleteFunc(sb.finished, func(other *handle) bool { return other == h })
}

func (sb *box) Exec(id string) (Exec, error) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	h, ok := sb.execs[id]
	if !ok {
		return nil, &Error{Op: "find execution " + id, Sandbox: sb.id, Err: ErrNotFound}
	}
	return h, nil
}

func (sb *box) Execs() []Exec {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	all := slices.SortedFunc(maps.Values(sb.execs), func(a, b *handle) int { return cmp.Compare(a.number, b.number) })
	execs := make([]Exec, len(all))
	for i, h := range all {
		execs[i] = h
	}
	return execs
}

func (sb *box) Close(ctx context.Context) error {
	select {
	case sb.closing <- struct{}{}:
		defer func() { <-sb.closing }()
	case <-ctx.Done():
		return &Error{Op: "close", Sandbox: sb.id, Err: ctx.Err()}
	}
	if sb.Info().Status == SandboxClosed {
		return nil
	}
	sb.retire(SandboxClosing)
	err := errors.Join(sb.cancelAll(ctx), sb.instance.Destroy(ctx))
	if err != nil {
		return &Error{Op: "close", Sandbox: sb.id, Err: err}
	}
	sb.mu.Lock()
	defer sb.mu.Unlock()
	sb.status = SandboxClosed
	return nil
}

// cancelAll cancels what runs, without grace, and waits until it is over.
func (sb *box) cancelAll(ctx context.Context) error {
	sb.mu.Lock()
	all := slices.Collect(maps.Values(sb.execs))
	sb.mu.Unlock()
	for _, h := range all {
		h.cancelNow()
	}
	for _, h := range all {
		select {
		case <-h.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
