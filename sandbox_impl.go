package sandbox

import (
	"container/list"
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

// A sandboxImpl is a Sandbox.
type sandboxImpl struct {
	id       string
	cfg      Config
	opts     Options
	hooks    hooks
	backend  backend.Info
	instance backend.Instance
	created  time.Time
	egress   *egressGate // nil where there is none

	life    context.Context // ends when nothing can run here any more
	end     context.CancelFunc
	closing chan struct{} // of capacity 1: held by the Close at work

	mu       sync.Mutex // guards all below
	status   SandboxStatus
	execs    map[string]*execImpl
	order    list.List                // of *execImpl: those of execs, in the order of their start
	keys     map[string]*execImpl     // of those with a Command.Key, by it
	starting map[string]chan struct{} // keys whose execution somebody is about to start
	finished list.List                // of *execImpl: those of execs that are over, oldest first
}

// hooks are what a Manager does for its sandboxes.
type hooks interface {
	// label adds to a valid configuration what the Manager is to find in it
	// when the sandbox is recovered later.
	label(*Config)

	// admit waits for the slot of one more execution. The caller calls done when
	// it is over.
	admit(ctx context.Context) (done func(), err error)

	// recorded and forgotten tell that a finished execution is kept, and no
	// longer is.
	recorded(*execImpl)
	forgotten(*execImpl)

	// events is where the sandbox's observer is called from, with that key.
	events() *events
	managerKey() Key

	// closed is told that the sandbox has been removed.
	closed(context.Context)
}

// unmanaged are the hooks of a sandbox without a Manager.
type unmanaged struct{ observed *events }

func (u unmanaged) events() *events            { return u.observed }
func (u unmanaged) closed(ctx context.Context) { u.observed.wait(ctx) }

func (unmanaged) managerKey() Key                       { return Key{} }
func (unmanaged) label(*Config)                         {}
func (unmanaged) admit(context.Context) (func(), error) { return func() {}, nil }
func (unmanaged) recorded(*execImpl)                    {}
func (unmanaged) forgotten(*execImpl)                   {}

const defaultRecords = 100

// newSandbox makes a sandbox of that id.
func newSandbox(ctx context.Context, b backend.Backend, id string, opts Options, k hooks) (*sandboxImpl, error) {
	opts.Config = cloneConfig(opts.Config, id)
	if err := validateConfig(&opts.Config); err != nil {
		return nil, &Error{Op: "create", Err: err}
	}
	k.label(&opts.Config)
	instance, err := newInstance(ctx, b, &opts.Config)
	if err != nil {
		return nil, &Error{Op: "create", Err: err}
	}
	sb := sandboxOf(b.Info(), instance, time.Now(), opts, k)
	if err := sb.openEgress(ctx); err != nil {
		sb.end()
		return nil, &Error{Op: "create", Err: errors.Join(err, discardSandbox(instance))}
	}
	sb.begin(ctx, Observer.SandboxCreated)
	return sb, nil
}

// newInstance has the backend make what cfg says, and sees that it has what the backend
// promises.
func newInstance(ctx context.Context, b backend.Backend, cfg *Config) (backend.Instance, error) {
	instance, err := answerOf(ctx, "Create", discardSandboxTime, func() (backend.Instance, error) { return b.Create(ctx, cfg) }, discardSandbox)
	if err != nil {
		return nil, err
	}
	if err := hidden(b.Info(), instance); err != nil {
		return nil, errors.Join(err, discardSandbox(instance))
	}
	return instance, nil
}

// discardSandboxTime bounds the removal of a sandbox that is refused when it has been
// made, and a Create whose context has ended.
const discardSandboxTime = 30 * time.Second

func discardSandbox(i backend.Instance) error {
	ctx, cancel := context.WithTimeout(context.Background(), discardSandboxTime)
	defer cancel()
	return i.Destroy(ctx)
}

// sandboxOf makes a sandbox of an instance that exists. Call openEgress next, then begin.
func sandboxOf(info backend.Info, instance backend.Instance, created time.Time, opts Options, k hooks) *sandboxImpl {
	if opts.Records == 0 {
		opts.Records = defaultRecords
	}
	life, end := context.WithCancel(context.Background())
	sb := &sandboxImpl{
		id:       opts.Config.ID,
		cfg:      opts.Config,
		opts:     opts,
		hooks:    k,
		backend:  info,
		instance: instance,
		created:  created,
		life:     life,
		end:      end,
		closing:  make(chan struct{}, 1),
		status:   SandboxRunning,
		execs:    make(map[string]*execImpl),
		keys:     make(map[string]*execImpl),
		starting: make(map[string]chan struct{}),
	}
	return sb
}

// begin tells the observer how the sandbox came to be, and watches it from then on.
func (sb *sandboxImpl) begin(ctx context.Context, what func(Observer, context.Context, SandboxEvent)) {
	sb.hooks.events().sandbox(ctx, what, sb.event())
	go sb.watch()
}

// newID returns prefix and 26 letters and digits that nobody can guess.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// watch notices that the sandbox has died.
func (sb *sandboxImpl) watch() {
	select {
	case <-sb.instance.Gone():
		sb.stop(SandboxFailed)
	case <-sb.life.Done():
	}
}

// stop ends the sandbox's running life, once.
func (sb *sandboxImpl) stop(status SandboxStatus) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if sb.status != SandboxRunning {
		return
	}
	sb.status = status
	sb.end()
	if status == SandboxFailed {
		sb.hooks.events().sandbox(context.Background(), Observer.SandboxDied, sb.eventLocked())
	}
}

func (sb *sandboxImpl) ID() string            { return sb.id }
func (sb *sandboxImpl) Gone() <-chan struct{} { return sb.life.Done() }
func (sb *sandboxImpl) sealed()               {}

func (sb *sandboxImpl) Info() Info {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	return sb.infoLocked()
}

func (sb *sandboxImpl) infoLocked() Info {
	info := Info{ID: sb.id, Status: sb.status, Backend: sb.backend, Labels: userLabels(sb.cfg.Labels), CreatedAt: sb.created}
	if sb.cfg.Lifetime > 0 {
		info.ExpiresAt = sb.created.Add(sb.cfg.Lifetime)
	}
	return info
}

// event returns what the observer is told of the sandbox now.
func (sb *sandboxImpl) event() SandboxEvent {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	return sb.eventLocked()
}

func (sb *sandboxImpl) eventLocked() SandboxEvent {
	return SandboxEvent{Key: sb.hooks.managerKey(), Info: sb.infoLocked(), Time: time.Now()}
}

func (sb *sandboxImpl) Run(ctx context.Context, cmd Command) (*Execution, error) {
	h, _, err := sb.start(ctx, cmd, false)
	if err != nil {
		return nil, err
	}
	return h.Wait(context.WithoutCancel(ctx))
}

func (sb *sandboxImpl) Start(ctx context.Context, cmd Command) (Exec, error) {
	h, _, err := sb.start(ctx, cmd, false)
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (sb *sandboxImpl) Follow(ctx context.Context, cmd Command) (Exec, Stream, error) {
	h, r, err := sb.start(ctx, cmd, true)
	if err != nil {
		return nil, nil, err
	}
	return h, r, nil
}

// start starts cmd, and opens a reader at its first byte if it is to be followed.
func (sb *sandboxImpl) start(ctx context.Context, cmd Command, follow bool) (h *execImpl, r *reader, err error) {
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
	known, release, err := sb.reserve(ctx, cmd.Key)
	if known != nil || err != nil {
		return sb.join(known, follow, err)
	}
	defer release()
	done, err := sb.hooks.admit(ctx)
	if err != nil {
		return nil, nil, err
	}
	h = newExec(ctx, sb, cmd, done)
	if err := sb.register(h); err != nil {
		h.drop()
		done()
		return nil, nil, err
	}
	release() // others may have it from now on
	h, r, err = sb.join(h, follow, nil)
	if gone := h.start(); gone != nil {
		if r != nil {
			r.Close()
		}
		return nil, nil, gone
	}
	return h, r, err
}

// join opens a reader at the first byte of h if it is to be followed.
func (sb *sandboxImpl) join(h *execImpl, follow bool, err error) (*execImpl, *reader, error) {
	if err != nil || !follow {
		return h, nil, err
	}
	r, err := h.out.open(Offsets{})
	return h, r, err
}

// usable says why nothing can run here, or nil.
func (sb *sandboxImpl) usable() error {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	return sb.usableLocked()
}

func (sb *sandboxImpl) usableLocked() error {
	switch sb.status {
	case SandboxRunning:
		return nil
	case SandboxFailed:
		return ErrGone
	default:
		return ErrClosed
	}
}

func (sb *sandboxImpl) Close(ctx context.Context) error {
	select {
	case sb.closing <- struct{}{}:
	case <-ctx.Done():
		return &Error{Op: "close", Sandbox: sb.id, Err: ctx.Err()}
	}
	// A backend that takes longer than ctx holds the next Close up, not this one.
	err := answer(ctx, "Destroy", func() error {
		defer func() { <-sb.closing }()
		return sb.close(ctx)
	})
	if err != nil {
		return &Error{Op: "close", Sandbox: sb.id, Err: err}
	}
	sb.hooks.closed(ctx)
	return nil
}

// close closes the sandbox for one caller of Close.
func (sb *sandboxImpl) close(ctx context.Context) error {
	if sb.Info().Status == SandboxClosed {
		return nil
	}
	sb.stop(SandboxClosing)
	err := errors.Join(sb.cancelAll(ctx), sb.instance.Destroy(ctx))
	if err != nil {
		return err
	}
	if sb.egress != nil {
		sb.egress.close(ctx)
	}
	sb.mu.Lock()
	defer sb.mu.Unlock()
	sb.status = SandboxClosed
	sb.hooks.events().sandbox(ctx, Observer.SandboxRemoved, sb.eventLocked())
	return nil
}

// log logs an error that no caller can be given.
func (sb *sandboxImpl) log(msg string, args ...any) {
	logError(sb.opts.Logger, msg, append(args, "sandbox", sb.id)...)
}

// cancelAll cancels what runs, without grace, and waits until it is over.
func (sb *sandboxImpl) cancelAll(ctx context.Context) error {
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
