package contained

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent"
	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
	"github.com/sandbox-go/sandbox/internal/files"
	"github.com/sandbox-go/sandbox/internal/workspace"
)

// Options are what an [Instance] is made of.
type Options struct {
	Container Container

	// User is who commands run as where their Spec does not say; empty is workspace.User.
	User string

	// Egress: the sandbox has a way out, through [Instance.Listen].
	Egress bool

	// Fresh: there was no connection to an agent yet, so no command ever ran there.
	Fresh bool

	// Background holds what must have ended before the backend is closed.
	Background *sync.WaitGroup
}

// An Instance is one container with an agent in it. It has all of [backend.Instance]
// but Destroy, and of [backend.Filer], [backend.Dialer] and [backend.Listener]. Its methods may be called
// concurrently.
type Instance struct {
	container  Container
	user       string
	background *sync.WaitGroup
	listener   *agentclient.Listener // nil without Options.Egress
	helpers    *files.Client

	alive context.Context         // ends with the reason, by Die or by End; no new link is made then
	stop  context.CancelCauseFunc // ends alive

	gone    chan struct{} // closed by Die
	linking chan struct{} // holds one token: whoever connects

	mu    sync.Mutex // guards what follows
	link  *link      // nil while there is no connection
	fresh bool
}

// New returns an instance without a connection, which the first use makes.
func New(opts Options) *Instance {
	alive, stop := context.WithCancelCause(context.Background())
	i := &Instance{
		container: opts.Container, user: cmp.Or(opts.User, workspace.User), fresh: opts.Fresh, background: opts.Background,
		alive: alive, stop: stop,
		gone: make(chan struct{}), linking: make(chan struct{}, 1),
	}
	i.helpers = files.NewClient(i.Start, agent.FilesCommand())
	if opts.Egress {
		i.listener = agentclient.NewListener()
		context.AfterFunc(alive, func() { i.listener.Close() })
	}
	return i
}

// User returns who commands run as where their Spec does not say.
func (i *Instance) User() string { return i.user }

// Start starts a command through the agent. A connection that was lost is made
// again first.
func (i *Instance) Start(ctx context.Context, spec *backend.Spec) (backend.Process, error) {
	s := *spec
	s.User = cmp.Or(spec.User, i.user)
	for {
		l, err := i.connect(ctx)
		if err != nil {
			return nil, i.unconnected(ctx, err)
		}
		s.Env = spec.Environ(l.Env)
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
func (i *Instance) unconnected(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, backend.ErrGone):
		return err
	}
	detail := "the sandbox cannot be reached: " + cmp.Or(i.container.Brief(err), "try again")
	return fmt.Errorf("%w: %w", &backend.StartError{Reason: backend.CannotStart, Detail: detail}, err)
}

// Gone is closed when the container has died.
func (i *Instance) Gone() <-chan struct{} { return i.gone }

// Alive returns a context that ends, with the reason as its cause, when the container
// has died or is to be destroyed.
func (i *Instance) Alive() context.Context { return i.alive }

// End breaks the connection and makes none again. It reports whether it was the
// first to do so.
func (i *Instance) End(cause error) bool {
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

// Die is End for a container that ended by itself.
func (i *Instance) Die(cause error) {
	if i.End(cause) {
		close(i.gone)
	}
}

// why returns the reason for which the container has ended, or nil.
func (i *Instance) why() error { return context.Cause(i.alive) }
