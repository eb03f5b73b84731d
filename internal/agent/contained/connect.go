package contained

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
)

// pausePoll is how often a paused container is looked at.
const pausePoll = 100 * time.Millisecond

// File works on the container's files, by a process of its user.
func (i *Instance) File(ctx context.Context, r *backend.FileRequest) error {
	return i.helpers.File(ctx, r)
}

// Dial connects to a port through the agent, so a network is not needed.
func (i *Instance) Dial(ctx context.Context, port int) (net.Conn, error) {
	l, err := i.connect(ctx)
	if err != nil {
		return nil, err
	}
	return l.Conn.Dial(ctx, port)
}

// Listen returns the listener of a sandbox with Config.Egress. The agent listens before
// the first command starts.
func (i *Instance) Listen(ctx context.Context) (net.Listener, error) {
	if i.listener == nil {
		return nil, fmt.Errorf("%w: the sandbox was created without Config.Egress", errors.ErrUnsupported)
	}
	if _, err := i.connect(ctx); err != nil {
		return nil, err
	}
	return i.listener, nil
}

// Connect makes the connection to the agent, if there is none, and returns what the
// agent saw of the limits that the kernel holds the container to.
func (i *Instance) Connect(ctx context.Context) (backend.Limits, error) {
	l, err := i.connect(ctx)
	if err != nil {
		return backend.Limits{}, err
	}
	return l.Limits(), nil
}

func (i *Instance) connect(ctx context.Context) (*link, error) {
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
	if l.Connection, err = i.dial(ctx, agentclient.Options{Explain: l.explain, Listener: i.listener}); err != nil {
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
	i.background.Go(l.follow) // with mu held: a Close that has begun has ended the instance
	i.mu.Unlock()
	return l, nil
}

// dial starts an agent in the container and connects to it. A container that is
// paused is waited for; one that ends, or an engine that hangs, is not.
func (i *Instance) dial(ctx context.Context, opts agentclient.Options) (*Connection, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(i.alive, func() { cancel(i.why()) })()
	i.mu.Lock()
	fresh := i.fresh
	i.mu.Unlock()
	for {
		paused := i.container.Paused() != nil // it may go on between an attempt that finds it paused and the look
		conn, err := i.container.Dial(ctx, fresh, opts)
		if err == nil || ctx.Err() != nil || !i.container.Look(ctx) || i.container.Paused() == nil && !paused {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pausePoll):
		}
	}
}

// present returns the connection there is, or nil; or why there can be none.
func (i *Instance) present() (*link, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if cause := i.why(); cause != nil {
		return nil, fmt.Errorf("%w: %w", backend.ErrGone, cause)
	}
	return i.link, nil
}

// reconnect tries once to make a connection, and reports whether there is one.
func (i *Instance) reconnect() bool {
	ctx, cancel := context.WithTimeout(i.alive, settleTime)
	defer cancel()
	l, _ := i.connect(ctx)
	return l != nil
}

// unlink forgets l, which has ended.
func (i *Instance) unlink(l *link) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.link == l {
		i.link = nil
	}
}
