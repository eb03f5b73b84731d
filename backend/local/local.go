// Package local runs commands on the service's own machine. It is a convenience,
// not an isolation: commands see the machine's files, its network and its
// processes. Do not give it commands that you do not trust.
//
// A sandbox is a directory, in which its commands start, and which is their HOME.
// A [backend.Spec.Dir] or a file's name that begins with /workspace or /home/user means
// that directory, so that what works in a container works here. The text of a command
// is not translated: "cd /workspace" within one fails. Files reaches what is below that
// directory, TMPDIR and the machine's /tmp, and refuses the rest ([backend.ErrOutside]).
//
// When the service runs as root, its commands never do. Each sandbox gets a user
// of its own, from a range of numbers, and its directory is closed to others. So
// sandboxes can neither read nor signal each other or the service. A service that
// is root but may not change users is told so by [New].
//
// A service that is root and may make control groups limits what a sandbox uses
// (Options.Limits). Elsewhere commands may use all of the machine's memory, processors and
// process numbers. [backend.Info] says which it is.
//
// When the service does not run as root, commands run as the service's user. They
// can read what it can read, its /proc included, and can signal it: "kill -9 -1" in
// a command ends the service.
//
// On Linux (amd64, arm64) a small program of the library's own starts commands as
// their parent. A kill then reaches whatever a command has started, however
// detached, and when the service dies, all of it dies too. Elsewhere commands are
// process groups of the service itself: what leaves its group escapes a kill, and
// everything outlives a service that is killed. The signals for stopping and going on
// (SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT) that a service was started to ignore, its process
// groups ignore too. On Windows, Create answers errors.ErrUnsupported.
package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/cgroup"
	"github.com/sandbox-go/sandbox/internal/host"
)

// Options are how sandboxes are made. Nil and the zero value are the defaults.
type Options struct {
	// Dir is where the sandboxes' directories are made, in one that Close removes;
	// what services that died have left there is removed by New. It is created if
	// it does not exist. Users of sandboxes must be able to pass through it and
	// what is above it. Empty is os.TempDir().
	Dir string

	// Users are the numbers that sandboxes' users get when the service runs as
	// root. Their groups have the same numbers. The zero value is 65,536 numbers
	// from 2,000,000,000 on, or, where a user namespace does not have these,
	// 20,000 from 40,000 on. Services on one machine may share a range.
	Users UserRange

	// Limits bound one sandbox, where the service runs as root and may make control groups.
	// A zero field is its default: 512 processes, half of the machine's memory, without
	// swap, and all CPUs. A negative one is no limit. Elsewhere New refuses limits.
	Limits backend.Limits

	// ProcessGroups has commands run as process groups of the service itself, also
	// where the better way exists.
	ProcessGroups bool
}

// A UserRange is Count numbers of users from First on. None of them may belong to
// anybody.
type UserRange struct{ First, Count uint32 }

// New returns a backend of local sandboxes. Nil opts are the defaults; they are copied.
// The error says what a service that is root lacks to run commands as other users, or
// why Options.Dir cannot be used. Close removes all directories that the backend has made.
func New(opts *Options) (*Backend, error) {
	b := &Backend{}
	if opts != nil {
		b.opts = *opts
	}
	var err error
	if os.Geteuid() == 0 {
		if b.users, err = host.NewUsers(host.Range(b.opts.Users), b.opts.Dir); err != nil {
			return nil, fmt.Errorf("local: %w", err)
		}
	}
	if b.base, err = host.NewBase("local", b.opts.Dir, b.users != nil, removeStale); err != nil {
		if b.users != nil {
			b.users.Close()
		}
		return nil, fmt.Errorf("local: %w", err)
	}
	b.runner = newRunner(b.base.Path, b.opts.ProcessGroups)
	b.sweeps.do, b.leftovers.do = b.sweepOnce, removeLeftovers
	b.release = sync.OnceValue(b.close)
	if err := b.newGroups(); err != nil {
		return nil, errors.Join(err, b.release())
	}
	return b, nil
}

// A Backend makes sandboxes on this machine. Its methods may be called concurrently.
type Backend struct {
	opts   Options
	base   *host.Base
	users  *host.Users // nil when commands run as the service's own user
	runner runner

	groups    *cgroup.Parent // nil where sandboxes are not limited
	groupsErr error          // why not

	sweeps    gatherer[pass]
	leftovers gatherer[error]

	instances host.Instances[*instance]

	release func() error // calls close once
}

// A runner starts commands. Its methods may be called concurrently.
type runner interface {
	containment() backend.Containment

	// prepare does what the first start would wait for.
	prepare() error

	start(ctx context.Context, o *startRequest, spec *backend.Spec) (process, error)

	// files reaches what is below dir, with the rights of i's user.
	files(i *instance, dir string) (backend.Filer, error)

	// sweep makes one pass over users each of which belongs to one sandbox: it kills
	// every process of theirs. It returns what is left of each, which may be about to end.
	sweep(ctx context.Context, users []int64) (map[int64][]backend.Survivor, error)

	close()
}

// A process is a command that was started.
type process interface {
	backend.Process

	// Empty is closed when nothing of it is left, or nobody knows.
	Empty() <-chan struct{}
}

// A startRequest is what to start, and as whom. Of the Spec that comes with it, the
// streams count.
type startRequest struct {
	shell string
	argv  []string
	dir   string
	env   []string
	user  identity
	group cgroup.Place
}

// An identity is who commands run as.
type identity struct {
	id  uint32
	own bool // it is the sandbox's alone; otherwise it is the service's
}

// Info says what is promised on this machine, and as this user.
func (b *Backend) Info() backend.Info {
	info := backend.Info{
		Name:           "local",
		Containment:    b.runner.containment(),
		DedicatedUser:  b.users != nil,
		ProtectedAgent: b.users != nil,
		Terminal:       true,
		Ports:          true,
		OOM:            b.groups != nil,
		Caveats:        append([]string{"Commands see the machine's files, network and processes."}, b.limited()...),
	}
	info.Files = b.users == nil || info.Containment == backend.ContainmentSupervisor
	if b.users == nil {
		info.Caveats = append(info.Caveats,
			"Commands run as the service's own user: they can read what it can read, and can signal it and each other.")
	}
	if info.Containment == backend.ContainmentProcessGroup {
		info.Caveats = append(info.Caveats,
			"What leaves its process group escapes a kill, and commands outlive a service that is killed.",
			"Commands ignore SIGCONT, SIGTSTP, SIGTTIN and SIGTTOU if the service was started to ignore them; outside Linux, and where unshare(2) is refused, they have its umask.")
	}
	return info
}

// Create makes a sandbox's directory. A setting that needs isolation, such as an image or a
// mount, and a limit that cannot be held are errors that wrap errors.ErrUnsupported.
func (b *Backend) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := unsupported(cfg); err != nil {
		return nil, err
	}
	if err := b.runner.prepare(); err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	limits, err := b.limits(cfg)
	if err != nil {
		return nil, err
	}
	i, err := b.newInstance(cfg.ID, limits)
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	if !b.instances.Add(i) {
		return nil, errors.Join(fmt.Errorf("local: %w", errClosed), i.Destroy(ctx))
	}
	return i, nil
}

// errClosed: the backend has been closed.
var errClosed = fmt.Errorf("backend is closed: %w", backend.ErrGone)

// unsupported says which setting cannot be honoured, if any.
func unsupported(cfg *backend.Config) error {
	for _, s := range []struct {
		name string
		set  bool
	}{
		{"an image", cfg.Image != ""},
		{"a user", cfg.User != ""},
		{"a network other than the host's", cfg.Network != "" && cfg.Network != "host"},
		{"mounts", len(cfg.Mounts) > 0},
		{"rules for egress, since its commands have the machine's network: leave Config.Egress nil, or use a backend whose Info.Egress is true", cfg.Egress != nil},
	} {
		if s.set {
			return fmt.Errorf("local: %w: a local sandbox cannot have %s", errors.ErrUnsupported, s.name)
		}
	}
	return nil
}

// Close destroys the sandboxes and ends the agent. After an error it may be called
// again.
func (b *Backend) Close(ctx context.Context) error {
	if err := b.instances.Close(ctx, func(i *instance) { i.lose() }); err != nil {
		return err
	}
	return b.release()
}

// close gives back what the backend itself holds.
func (b *Backend) close() error {
	b.runner.close()
	var err error
	if b.users != nil {
		err = b.users.Close()
	}
	return errors.Join(err, b.base.Remove()) // the control group too
}
