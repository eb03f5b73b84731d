package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent"
	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
	"github.com/sandbox-go/sandbox/internal/files"
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
		b: b, container: container, name: name, volume: volume, env: env, user: cmp.Or(cfg.User, defaultUser), network: network,
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
	s.Dir = inWorkspace(spec.Dir)
	for {
		l, err := i.connect(ctx)
		if err != nil {
			return nil, unconnected(ctx, err)
		}
		p, err := startFirst(ctx, l, &s)
		if spec.Dir == "" && errors.Is(err, backend.BadDirectory) {
			p, err = i.startInOpen(ctx, l, &s)
		}
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

// startFirst starts a command, and takes nothing of its input when that fails, so
// that it can be tried again.
func startFirst(ctx context.Context, l *link, s *backend.Spec) (backend.Process, error) {
	if s.Stdin == nil {
		return l.Start(ctx, s)
	}
	g := &gate{Reader: s.Stdin, over: make(chan struct{})}
	first := *s
	first.Stdin = g
	p, err := l.Start(ctx, &first)
	g.refused = err != nil
	close(g.over)
	return p, err
}

// A gate is an input that is read once the start is over, and is empty when the
// start was refused.
type gate struct {
	io.Reader
	over    chan struct{}
	refused bool // valid once over is closed
}

func (g *gate) Read(p []byte) (int, error) {
	<-g.over
	if g.refused {
		return 0, io.EOF
	}
	return g.Reader.Read(p)
}

// startInOpen starts a command in the start directory, which its user has closed to
// itself, after it has been opened again. That it cannot be is no fault of who named
// no directory.
func (i *instance) startInOpen(ctx context.Context, l *link, s *backend.Spec) (backend.Process, error) {
	opener := &files.Client{Program: agent.FilesCommand(), Start: func(ctx context.Context, spec *backend.Spec) (backend.Process, error) {
		spec.Dir, spec.User, spec.Env = "/", s.User, s.Env
		return l.Start(ctx, spec)
	}}
	if err := opener.File(ctx, &backend.FileRequest{Op: backend.FileChmod, Name: workspace, Mode: 0o700}); err != nil {
		return nil, closedStart(ctx, err)
	}
	p, err := l.Start(ctx, s)
	if errors.Is(err, backend.BadDirectory) {
		err = closedStart(ctx, err)
	}
	return p, err
}

// closedStart is the error of a command that was not started, since the start
// directory could not be opened.
func closedStart(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &backend.StartError{
		Reason: backend.CannotStart,
		Detail: fmt.Sprintf("the start directory is closed to the commands' user: %v", err),
	}
}

// inWorkspace returns dir as an absolute one. It is not cleaned: what ".." leads
// to is for the kernel to say.
func inWorkspace(dir string) string {
	switch {
	case dir == "":
		return workspace
	case path.IsAbs(dir):
		return dir
	default:
		return workspace + "/" + dir
	}
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
