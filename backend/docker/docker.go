// Package docker runs commands in containers of a Docker engine, local or
// remote, from API 1.41 (Docker 20.10) on. Podman's service speaks it too, from
// Podman 4.3 on: DOCKER_HOST or Options.Host names its socket. It uses its default
// runtime only, so that Create refuses another in Options.Runtime.
//
// # What a sandbox is
//
// One container, and one volume that is mounted at /workspace, the start
// directory and HOME, and again at /home/user. It runs what the image holds, with
// the image's environment, but not its entrypoint, user, working directory or
// health check. Commands run as uid 1000, whether the image knows that user or
// not, without any capability, with no_new_privs, the engine's default seccomp
// profile, no network, and limits of processes, memory and CPU; [Options] and
// [backend.Config] change that. A limit that the engine does not enforce, a default
// one too, is an error of Create; a negative one accepts a sandbox without. /tmp is memory.
//
// Any image for linux/amd64 or linux/arm64 will do; a command given as Shell
// needs a sh in it.
//
// # How commands are started
//
// A small program of ours, the agent, is PID 1 of the container and starts the
// commands, so that a command costs a fork and not a "docker exec", and can be
// killed. It is in a volume that all sandboxes of an engine share, read-only. The
// agent is root in its container with CAP_CHOWN, KILL, SETGID, SETPCAP and SETUID,
// of which no command gets any.
//
// # What is left behind
//
// Closing a sandbox removes its container and its volume. When the service dies,
// what runs in its sandboxes is killed at once; the containers wait, idle, for the
// service to come back: [Backend.Recover] reattaches to them. A container with a lifetime
// ends itself when it is over, service or not, and one that no service is connected
// to for a day, or for Options.AbandonAfter, ends too. [New] removes what has ended
// meanwhile. Only what carries the name of Options.Owner is touched. The volume of
// the agent stays on the engine for the next time.
package docker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/sandbox-go/sandbox/backend"
)

const (
	answerTime   = 5 * time.Second  // within which an engine answers
	cleanupTime  = 30 * time.Second // bounds the removal of what is of no use
	removeAtOnce = 8                // removals in parallel
)

// A Backend makes sandboxes on one engine. Its methods may be called
// concurrently.
type Backend struct {
	opts   Options
	host   string // the engine's address
	api    *client.Client
	engine engine
	podman atomic.Bool // it is Podman
	direct atomic.Bool // the last connection to an agent was direct

	alive context.Context // ends when Close is called
	stop  context.CancelCauseFunc
	done  sync.WaitGroup // goroutines, and calls that Close must outlast

	installing chan struct{}     // holds one token: whoever may use installed
	installed  map[string]string // an agent's hash: the volume that is known to hold it

	mu              sync.Mutex // guards what follows
	closed          bool
	instances       map[string]*instance // by container id
	logged          map[string]bool      // what is not to be logged again
	pendingRemovals map[string]*plan     // by volume: what failed creations have made and could not be removed
}

// New connects to the engine, and removes what an earlier process of the same
// owner left that has ended since. The context covers that only. Nil for opts is
// the defaults; they are copied. The error is an *Error when the engine is
// missing, closed to us or too old.
func New(ctx context.Context, opts *Options) (*Backend, error) {
	b := &Backend{
		opts:            opts.resolve(),
		installing:      make(chan struct{}, 1),
		instances:       make(map[string]*instance),
		installed:       make(map[string]string),
		logged:          make(map[string]bool),
		pendingRemovals: make(map[string]*plan),
	}
	api, err := dial(b.opts.Host, client.WithHTTPResponseHook(b.recognize))
	if err != nil {
		return nil, err
	}
	b.api, b.host = api, api.DaemonHost()
	if err := b.ping(ctx); err != nil {
		api.Close()
		return nil, err
	}
	if b.engine, err = b.ask(ctx); err != nil {
		api.Close()
		return nil, err
	}
	if err := b.tidy(ctx); err != nil {
		api.Close()
		return nil, err
	}
	b.alive, b.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	b.done.Go(func() { b.watch(b.alive) })
	b.done.Go(func() { b.patrol(b.alive) })
	return b, nil
}

// ping sees whether the engine answers, and agrees on a version of its API.
func (b *Backend) ping(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := b.api.Ping(bounded, client.PingOptions{NegotiateAPIVersion: true})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{NoEngine, b.host, "see whether the engine hangs, or say where it is with DOCKER_HOST or Options.Host", err}
	case strings.Contains(err.Error(), "API version"):
		return &Error{OldEngine, b.host, "update it to Docker 20.10 or later", err}
	default:
		return engineError(b.host, err)
	}
}

// Info says what containers promise, on the engine that New asked.
func (b *Backend) Info() backend.Info {
	return backend.Info{
		Name:             "docker",
		Containment:      backend.ContainmentSupervisor,
		DedicatedUser:    true,
		DedicatedFiles:   true,
		ProtectedAgent:   true,
		DedicatedNetwork: ownNetwork(b.opts.Network),
		Terminal:         true,
		Files:            true,
		Egress:           true,
		Recover:          true,
		Ports:            ownNetwork(b.opts.Network),
		DedicatedKernel:  b.engine.kernel == gVisorKernel || b.engine.kernel == guestKernel,
		OOM:              b.engine.tellsOOM(),
		Connection:       b.connection(),
		Caveats:          b.engine.caveats(),
	}
}

// connection returns how the last sandbox was connected with.
func (b *Backend) connection() string {
	if b.direct.Load() {
		return string(ConnectDirect)
	}
	return string(ConnectEngine)
}

// Close destroys the sandboxes and ends the connection to the engine. After an
// error it may be called again.
func (b *Backend) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.stop(errClosed)

	left := b.sandboxes()
	errs := make([]error, len(left))
	var group errgroup.Group
	group.SetLimit(removeAtOnce)
	for n, i := range left {
		group.Go(func() error {
			i.Die(errClosed)
			errs[n] = i.Destroy(ctx)
			return nil
		})
	}
	group.Wait()
	if err := errors.Join(append(errs, b.removePending(ctx))...); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		b.done.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return b.api.Close()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin holds up the end of Close until the caller calls b.done.Done. It reports
// false when the backend is closed.
func (b *Backend) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.done.Add(1)
	}
	return !b.closed
}

// whileOpen returns a context that ends with ctx, and when the backend is closed.
func (b *Backend) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(b.alive, func() { cancel(errClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// sandboxes returns the sandboxes there are.
func (b *Backend) sandboxes() []*instance {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.instances))
}

// lookup returns the sandbox of that container, or nil.
func (b *Backend) lookup(container string) *instance {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.instances[container]
}

// add makes i one of the sandboxes, unless the backend is closed.
func (b *Backend) add(i *instance) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	b.instances[i.container] = i
	return nil
}

// forget makes i none of the sandboxes.
func (b *Backend) forget(i *instance) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.instances, i.container)
}

var errClosed = errors.New("docker: the backend is closed")
