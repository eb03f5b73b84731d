//go:build linux && (amd64 || arm64)

package namespace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
	"github.com/sandbox-go/sandbox/internal/agent/modes/harden"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/cgroup"
	"github.com/sandbox-go/sandbox/internal/host"
	"github.com/sandbox-go/sandbox/internal/workspace"
)

// New returns a backend of sandboxes in namespaces. Nil opts are the defaults; they are
// copied. It makes a sandbox and removes it: what the machine lacks for one, or what is
// wrong with opts, is an [*Error]. Close removes all directories that the backend has made.
func New(opts *Options) (*Backend, error) {
	b := &Backend{opts: opts.resolve()}
	if err := b.open(); err != nil {
		return nil, err
	}
	b.release = sync.OnceValue(b.close)
	trial, err := b.Create(context.Background(), &backend.Config{ID: "trial"})
	if err == nil {
		err = trial.Destroy(context.Background())
	}
	if err != nil {
		return nil, errors.Join(err, b.release())
	}
	return b, nil
}

// open takes what the backend itself holds.
func (b *Backend) open() (err error) {
	if b.opts.Overlay && b.opts.Root == "" {
		return &Error{Call: "Options.Overlay", Err: errors.New("the machine's programs belong to root, whom no command is"), Change: "set Options.Root too"}
	}
	if b.opts.Root, err = directory(b.opts.Root); err != nil {
		return err
	}
	if b.filter, err = filter(b.opts.AllowNamespaces); err != nil {
		return &Error{Call: "seccomp", Err: err}
	}
	if b.users, err = newUsers(&b.opts); err != nil {
		return err
	}
	b.base, err = host.NewBase("namespace", b.opts.Dir, b.users.others(), func(dir string) error {
		return errors.Join(b.users.remove(dir), cgroup.RemoveStale(filepath.Base(dir)))
	})
	if err != nil {
		b.users.close()
		return &Error{Call: "Options.Dir", Err: err, Change: "choose one where the service may make directories"}
	}
	b.groups, b.groupsErr = cgroup.NewParent(filepath.Base(b.base.Path))
	b.program = agentclient.NewProgram(b.base.Path)
	return nil
}

// A Backend makes sandboxes on this machine. Its methods may be called concurrently.
type Backend struct {
	opts    Options
	filter  []byte // a seccomp program
	users   users
	base    *host.Base
	program *agentclient.Program

	groups    *cgroup.Parent // nil where the service may make none
	groupsErr error          // why

	instances host.Instances[*instance]

	release func() error // calls close once
}

// Info says what is promised on this machine, and as this user.
func (b *Backend) Info() backend.Info {
	info := backend.Info{
		Name:             "namespace",
		Containment:      backend.ContainmentSupervisor,
		DedicatedUser:    b.users.dedicated(),
		DedicatedFiles:   true,
		ProtectedAgent:   true,
		DedicatedNetwork: true,
		Terminal:         true,
		Files:            true,
		Ports:            true,
		Egress:           true,
		OOM:              b.groups != nil,
		Caveats: []string{
			"Commands share the machine's kernel.",
		},
	}
	if b.opts.WriteSize <= 0 {
		where := "/workspace"
		if b.opts.Overlay {
			where += " and its root"
		}
		info.Caveats = append(info.Caveats, "Nothing limits what a sandbox writes to "+where+".")
	}
	if b.groups == nil {
		info.Caveats = append(info.Caveats, fmt.Sprintf("Nothing limits the memory and the processors that a sandbox uses: %v.", b.groupsErr))
	}
	if b.opts.Root == "/" {
		info.Caveats = append(info.Caveats, "Commands can read the machine's programs, and what everybody can read in its /etc and /opt.")
	}
	if !info.DedicatedUser {
		info.Caveats = append(info.Caveats,
			"Commands have the service's number and groups on the machine, and can end what watches over other commands of the same sandbox.")
	}
	if !b.opts.AllowNamespaces && !harden.Landlock() {
		info.Caveats = append(info.Caveats, "The kernel has no Landlock (Linux 5.19): that mounts are read-only is the only wall around a sandbox's root.")
	}
	if b.opts.AllowNamespaces {
		info.Caveats = append(info.Caveats, "Commands can make user namespaces, and in them use much of the kernel; Landlock, under which nobody mounts, is off.")
	}
	return info
}

// Create makes a sandbox. An image, a network other than "none", and limits that the
// service may not set are errors that wrap errors.ErrUnsupported.
func (b *Backend) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := unsupported(cfg); err != nil {
		return nil, err
	}
	if !ownUser(cfg.User) {
		return nil, fmt.Errorf("namespace: %w: a sandbox has one user, %s", errors.ErrUnsupported, workspace.Login)
	}
	i, err := b.newInstance(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if !b.instances.Add(i) {
		return nil, errors.Join(errClosed, i.Destroy(ctx))
	}
	return i, nil
}

// errClosed: the backend has been closed.
var errClosed = fmt.Errorf("namespace: backend is closed: %w", backend.ErrGone)

// unsupported says which setting cannot be honoured, if any.
func unsupported(cfg *backend.Config) error {
	for _, s := range []struct {
		name string
		set  bool
	}{
		{"an image", cfg.Image != ""},
		{"a network", cfg.Network != "" && cfg.Network != "none"},
	} {
		if s.set {
			return fmt.Errorf("namespace: %w: a sandbox cannot have %s", errors.ErrUnsupported, s.name)
		}
	}
	return nil
}

// shown are the machine's directories in the root of a sandbox.
var shown = []string{"bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "usr"}

// enter returns what a sandbox is made of, in the directory root.
func (b *Backend) enter(cfg *backend.Config, root string, u *identity, l backend.Limits) (*wire.Enter, error) {
	e := &wire.Enter{
		Root:      b.opts.Root,
		Place:     filepath.Join(root, "root"),
		Data:      filepath.Join(root, "data"),
		DataSize:  max(0, b.opts.WriteSize),
		Overlay:   b.opts.Overlay,
		WorkAt:    []string{workspace.Dir, workspace.Alias},
		Hide:      b.opts.Hide,
		TmpSize:   b.opts.TmpSize,
		UID:       u.uid,
		GID:       u.uid,
		Processes: l.PIDs,
		Limited:   b.groups != nil && l.Memory > 0,
		Landlock:  !b.opts.AllowNamespaces && harden.Landlock(),
		Filter:    b.filter,
	}
	if e.Root == "/" {
		e.Entries = shown
	}
	var err error
	e.Mounts, err = mounts(b.opts.Mounts, cfg.Mounts)
	return e, err
}

// Close destroys the sandboxes. After an error it may be called again.
func (b *Backend) Close(ctx context.Context) error {
	if err := b.instances.Close(ctx, func(i *instance) { i.lose() }); err != nil {
		return err
	}
	return b.release()
}

// close gives back what the backend itself holds.
func (b *Backend) close() error {
	b.program.Close()
	return errors.Join(b.base.Remove(), b.users.close()) // the control group too
}

// directory returns the real path of a directory; of none it is the machine's root.
func directory(name string) (string, error) {
	if name == "" {
		return "/", nil
	}
	path, err := realPath(name)
	if err == nil {
		var info os.FileInfo
		if info, err = os.Stat(path); err == nil && !info.IsDir() {
			err = &os.PathError{Op: "open", Path: name, Err: errors.New("not a directory")}
		}
	}
	if err != nil {
		return "", &Error{Call: "Options.Root", Err: err}
	}
	return path, nil
}
