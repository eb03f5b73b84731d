//go:build linux && (amd64 || arm64)

package namespace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent"
	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/cgroup"
	"github.com/sandbox-go/sandbox/internal/files"
	"github.com/sandbox-go/sandbox/internal/host"
	"github.com/sandbox-go/sandbox/internal/workspace"
)

// An instance is a sandbox.
//
//	dir/         the agent's, who passes through it when it makes the sandbox
//	dir/data     what commands write: where they start, which is their HOME, and the
//	             upper layer of an overlay
//	dir/root     where the sandbox's root is made; empty
type instance struct {
	backend *Backend
	dir     string
	user    *identity
	env     []string
	agent   *agentclient.Local
	group   *cgroup.Group // nil where there is none
	live    host.Live[agentclient.Process]
	helpers *files.Client
	gone    chan struct{} // closed when the sandbox has died
	lose    func()        // closes gone

	destruction host.Destruction

	mu       sync.Mutex   // guards listener
	listener net.Listener // for Config.Egress, or nil
}

var (
	_ backend.Filer    = (*instance)(nil)
	_ backend.Dialer   = (*instance)(nil)
	_ backend.Listener = (*instance)(nil)
)

func (b *Backend) newInstance(ctx context.Context, cfg *backend.Config) (_ *instance, err error) {
	i := &instance{backend: b, dir: filepath.Join(b.base.Path, cfg.ID), gone: make(chan struct{})}
	i.lose = sync.OnceFunc(func() { close(i.gone) })
	i.env = workspace.Environ(nil, "", b.opts.Env)
	i.helpers = files.NewClient(i.Start, agent.FilesCommand())
	if i.user, err = b.users.take(); err != nil {
		return nil, &Error{Call: "Options.Users", Err: err}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.remove())
			i.user.release()
		}
	}()
	limits, err := b.limits(cfg)
	if err != nil {
		return nil, err
	}
	enter, err := b.enter(cfg, i.dir, i.user, limits)
	if err != nil {
		return nil, err
	}
	if i.group, err = b.newGroup(cfg.ID, limits); err != nil {
		return nil, err
	}
	if err := i.makeDirs(enter); err != nil {
		return nil, &Error{Call: "Options.Dir", Err: err}
	}
	enclosure := &agentclient.Enclosure{Program: b.program, Sys: i.user.sys, Map: i.user.mapTo, Group: i.group.Place(), Enter: enter}
	if b.opts.Overlay && i.user.tree != nil {
		if enclosure.Tree, err = i.user.tree(b.program, b.opts.Root); err != nil {
			return nil, err
		}
		defer enclosure.Tree.Close()
	}
	i.agent, err = agentclient.NewEnclosed(ctx, enclosure)
	if err != nil {
		return nil, explain(ctx, err)
	}
	go i.watch()
	return i, nil
}

// makeDirs makes the sandbox's directories, for the agent.
func (i *instance) makeDirs(e *wire.Enter) error {
	for _, dir := range []string{i.dir, e.Place, e.Data} {
		err := host.Mkdir(dir, 0o700)
		if err == nil && i.user.owner >= 0 {
			err = os.Chown(dir, i.user.owner, i.user.owner)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove removes what is left of a sandbox in which no process is.
func (i *instance) remove() error {
	return errors.Join(i.backend.users.remove(i.dir), i.group.Remove())
}

// watch says when the sandbox has died.
func (i *instance) watch() {
	<-i.agent.Done()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.listener != nil {
		i.listener.Close()
	}
	if !i.destruction.Begun() {
		i.lose()
	}
}

// Start implements [backend.Instance].
func (i *instance) Start(ctx context.Context, spec *backend.Spec) (backend.Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !ownUser(spec.User) {
		return nil, &backend.StartError{Reason: backend.BadUser, Path: spec.User, Detail: "a sandbox has one user, " + workspace.Login}
	}
	s := *spec
	s.Env = spec.Environ(i.env)
	p, err := workspace.Start(ctx, i.start, &s)
	if errors.Is(err, agentclient.ErrEnded) {
		err = fmt.Errorf("namespace: %w: %w", backend.ErrGone, err)
	}
	return p, err
}

// ownUser reports whether that is how the sandbox's one user may be called.
func ownUser(name string) bool {
	return name == "" || name == workspace.Login || name == workspace.User || name == fmt.Sprint(inside)
}

// start starts a command whose directory and environment are complete.
func (i *instance) start(ctx context.Context, spec *backend.Spec) (backend.Process, error) {
	start := &wire.Start{Shell: spec.Shell, Argv: spec.Argv, Dir: spec.Dir, Env: spec.Env, UID: i.user.uid, GID: i.user.uid, Own: i.user.uid >= 0}
	if !start.Own {
		start.Open = []string{"/tmp", "/dev/shm"}
	}
	before := i.group.OOMKills()
	p, err := i.agent.Start(ctx, start, spec)
	if err != nil {
		return nil, err
	}
	i.live.Add(p)
	return i.group.Process(p, before), nil
}

// Gone implements [backend.Instance].
func (i *instance) Gone() <-chan struct{} { return i.gone }

// File implements [backend.Filer], by a process of the sandbox. One that was kept does not
// open what wire.Start.Open does.
func (i *instance) File(ctx context.Context, r *backend.FileRequest) error {
	if i.user.uid >= 0 {
		return i.helpers.File(ctx, r)
	}
	c := files.NewClient(i.Start, agent.FilesCommand())
	defer c.Close()
	return c.File(ctx, r)
}

// Dial implements [backend.Dialer], through the agent, whose network is the sandbox's.
func (i *instance) Dial(ctx context.Context, port int) (net.Conn, error) {
	conn, err := i.agent.Dial(ctx, port)
	if err != nil && err != ctx.Err() {
		err = fmt.Errorf("namespace: port %d: %w", port, err)
	}
	return conn, err
}

// Listen implements [backend.Listener]: the agent's socket is the service's from then on, and
// what connects is carried by nobody.
func (i *instance) Listen(ctx context.Context) (net.Listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l, err := i.agent.Listen()
	if err != nil {
		return nil, fmt.Errorf("namespace: listen: %w", err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	select {
	case <-i.agent.Done():
		l.Close()
	default:
		i.listener = l
	}
	return l, nil
}

// Destroy implements [backend.Instance].
func (i *instance) Destroy(ctx context.Context) error { return i.destruction.Do(ctx, i.destroy) }

// destroy destroys the sandbox. What the agent has started ends with it.
func (i *instance) destroy() error {
	i.helpers.Close()
	i.agent.Close()
	for _, p := range i.live.Take() {
		p.DiscardOutput()
		<-p.OutputOver()
	}
	if err := i.remove(); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	i.user.release()
	i.backend.instances.Remove(i)
	return nil
}
