package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
	"github.com/sandbox-go/sandbox/internal/workspace"
)

// An instance is one container with an agent in it.
type instance struct {
	b         *Backend
	container string // its id
	name      string // of the container
	volume    string
	env       []string              // what every command gets before its Spec's
	user      string                // who commands run as by default
	network   string                // the container's NetworkMode
	listener  *agentclient.Listener // for Config.Egress; nil without

	alive context.Context         // ends with the reason, by death or by Destroy; no new link is made then
	stop  context.CancelCauseFunc // ends alive

	gone    chan struct{} // closed when the container died without Destroy
	linking chan struct{} // holds one token: whoever connects

	mu     sync.Mutex // guards what follows
	link   *link      // nil while there is no connection
	oom    bool       // the kernel killed something in the container for memory
	fresh  bool       // there was no connection yet, so no command ever ran
	paused bool       // the engine has said so last
}

func (b *Backend) newInstance(container, name, volume string, env []string, cfg *backend.Config, network string) *instance {
	alive, stop := context.WithCancelCause(context.Background())
	i := &instance{
		alive: alive, stop: stop,
		b: b, container: container, name: name, volume: volume, env: env, user: cmp.Or(cfg.User, workspace.User), network: network,
		gone: make(chan struct{}), linking: make(chan struct{}, 1),
	}
	if cfg.Egress != nil {
		i.listener = agentclient.NewListener()
		context.AfterFunc(alive, func() { i.listener.Close() })
	}
	return i
}

// Start starts a command through the agent. A connection that was lost is made
// again first.
func (i *instance) Start(ctx context.Context, spec *backend.Spec) (backend.Process, error) {
	s := *spec
	s.Env = spec.Environ(i.env)
	s.User = cmp.Or(spec.User, i.user)
	for {
		l, err := i.connect(ctx)
		if err != nil {
			return nil, unconnected(ctx, err)
		}
		p, err := workspace.Start(ctx, l.Start, &s)
		switch {
		case err == nil:
			return p, nil
		case !errors.Is(err, agentclient.ErrEnded):
			return nil, err
		}
		// The connection ended before the agent was asked: what there is then is
		// another one, or a reason why there is none.
		select {
		case <-l.settled:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// unconnected says of a start that there was no connection for it: nothing ran.
func unconnected(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, backend.ErrGone):
		return err
	}
	detail := "the sandbox cannot be reached: try again"
	if problem := (*Error)(nil); errors.As(err, &problem) {
		detail = "the sandbox cannot be reached: " + problem.Problem.Error() // the rest is the service's
	}
	return fmt.Errorf("%w: %w", &backend.StartError{Reason: backend.CannotStart, Detail: detail}, err)
}

// Gone is closed when the container has died.
func (i *instance) Gone() <-chan struct{} { return i.gone }

// Destroy removes the container with everything that runs in it, and its volume.
func (i *instance) Destroy(ctx context.Context) error {
	i.end(errDestroyed)
	if err := i.b.remove(ctx, i.container, i.volume); err != nil {
		return fmt.Errorf("docker: remove %s: %w", i.name, err)
	}
	i.b.forget(i)
	return nil
}

var errDestroyed = errors.New("docker: the sandbox was destroyed")

// connect returns the connection to the agent, and makes it when there is none.
func (i *instance) connect(ctx context.Context) (*link, error) {
	if l, err := i.present(); l != nil || err != nil {
		return l, err
	}
	select {
	case i.linking <- struct{}{}:
		defer func() { <-i.linking }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if l, err := i.present(); l != nil || err != nil {
		return l, err
	}
	l := &link{instance: i, settled: make(chan struct{})}
	var err error
	if l.connection, err = i.dialAgent(ctx, agentclient.Options{Explain: l.explain, HideOOM: !i.b.engine.tellsOOM(), Listener: i.listener}); err != nil {
		_, gone := i.present()
		return nil, cmp.Or(gone, err)
	}
	i.mu.Lock()
	if i.why() != nil {
		i.mu.Unlock()
		l.Close()
		return i.present()
	}
	i.link, i.fresh = l, false
	i.b.done.Go(l.follow) // with mu held: a Close that has begun has ended the instance
	i.mu.Unlock()
	return l, nil
}

// present returns the connection there is, or nil; or why there can be none.
func (i *instance) present() (*link, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if cause := i.why(); cause != nil {
		return nil, fmt.Errorf("%w: %w", backend.ErrGone, cause)
	}
	return i.link, nil
}

// reconnect tries once to make a connection, and reports whether there is one.
func (i *instance) reconnect() bool {
	ctx, cancel := context.WithTimeout(i.alive, answerTime)
	defer cancel()
	l, _ := i.connect(ctx)
	return l != nil
}

// unlink forgets l, which has ended.
func (i *instance) unlink(l *link) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.link == l {
		i.link = nil
	}
}

// end breaks the connection and makes none again. It reports whether it was the
// first to do so.
func (i *instance) end(cause error) bool {
	i.mu.Lock()
	first, l := i.why() == nil, i.link
	i.stop(cause)
	i.mu.Unlock()
	if first && l != nil {
		// Its Close waits for the sinks, and they wait for whoever learns from us
		// that the sandbox is gone. The link itself holds up the backend's Close.
		go l.Close()
	}
	return first
}

// die is end for a container that ended by itself.
func (i *instance) die(cause error) {
	if i.end(cause) {
		close(i.gone)
	}
}

// why returns the reason for which the container has ended, or nil.
func (i *instance) why() error { return context.Cause(i.alive) }
