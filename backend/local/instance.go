package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent"
	"github.com/sandbox-go/sandbox/internal/cgroup"
	"github.com/sandbox-go/sandbox/internal/files"
	"github.com/sandbox-go/sandbox/internal/host"
)

// An instance is a sandbox.
//
//	root/        the service's, which the sandbox's user may pass through
//	root/work    where commands start; their HOME
//	root/tmp     their TMPDIR
type instance struct {
	backend *Backend
	root    string
	user    identity
	env     []string
	group   *cgroup.Group // nil where there is none
	gone    chan struct{} // closed with the backend: a directory does not die
	lose    func()        // closes gone

	helpers *files.Client // has the runner's processes work on files

	used      atomic.Bool // a command was started
	restoring sync.Mutex  // held while restore changes directories
	live      host.Live[process]

	destruction host.Destruction

	mu   sync.Mutex          // guards open
	open map[string]*os.Root // of the directories that tree has opened
}

func (b *Backend) newInstance(id string, limits backend.Limits) (_ *instance, err error) {
	i := &instance{backend: b, root: filepath.Join(b.base.Path, id), gone: make(chan struct{}), open: make(map[string]*os.Root)}
	i.lose = sync.OnceFunc(func() { close(i.gone) })
	i.user.id = uint32(max(os.Geteuid(), 0))
	if b.users != nil {
		if i.user.id, err = b.users.Take(); err != nil {
			return nil, err
		}
		i.user.own = true
		defer func() {
			if err != nil {
				b.users.Release(i.user.id)
			}
		}()
	}
	if i.group, err = b.newGroup(id, limits); err != nil {
		return nil, err
	}
	if err := i.makeDirs(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(i.root), i.group.Remove())
	}
	i.env = i.environ()
	i.helpers = files.NewClient(i.Start, agent.FilesCommand())
	return i, nil
}

// environ returns what every command has in its environment.
func (i *instance) environ() []string {
	name := userName(i.user)
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + i.work(),
		"USER=" + name,
		"LOGNAME=" + name,
		"LANG=C.UTF-8",
		"TMPDIR=" + i.tmp(),
	}
}

// aliases are what the start directory is called on other backends.
var aliases = [...]string{"/workspace", "/home/user"}

// dir returns the directory that a command's means.
func (i *instance) dir(d string) string {
	clean := filepath.Clean(d)
	for _, alias := range aliases {
		if rest, ok := strings.CutPrefix(clean, alias); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(i.work(), rest)
		}
	}
	if filepath.IsAbs(d) {
		return d
	}
	return filepath.Join(i.work(), d)
}

// Start implements [backend.Instance].
func (i *instance) Start(ctx context.Context, spec *backend.Spec) (backend.Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if spec.User != "" && spec.User != userName(i.user) && spec.User != strconv.Itoa(int(i.user.id)) {
		return nil, &backend.StartError{
			Reason: backend.BadUser, Path: spec.User, Detail: "a local sandbox has one user, " + userName(i.user),
		}
	}
	if !i.destruction.Use() {
		return nil, errDestroyed
	}
	defer i.destruction.Unuse()
	i.used.Store(true)
	if err := i.restore(); err != nil {
		return nil, &backend.StartError{Reason: backend.CannotStart, Detail: err.Error()}
	}
	before := i.group.OOMKills()
	p, err := i.backend.runner.start(ctx, &startRequest{
		shell: spec.Shell,
		argv:  spec.Argv,
		dir:   i.dir(spec.Dir),
		env:   spec.Environ(i.env),
		user:  i.user,
		group: i.group.Place(),
	}, spec)
	if err != nil {
		return nil, i.told(err, spec.Dir)
	}
	i.live.Add(p)
	return i.group.Process(p, before), nil
}

// errDestroyed: the sandbox has been destroyed.
var errDestroyed = fmt.Errorf("local: it was destroyed: %w", backend.ErrGone)

// Gone implements [backend.Instance].
func (i *instance) Gone() <-chan struct{} { return i.gone }

// Destroy implements [backend.Instance].
func (i *instance) Destroy(ctx context.Context) error { return i.destruction.Do(ctx, i.destroy) }

func (i *instance) destroy() error {
	err := i.kill()
	if err == nil {
		err = errors.Join(i.group.Remove(), host.Remove(i.root))
		if i.user.own && i.used.Load() {
			err = errors.Join(err, i.backend.leftovers.ask(int64(i.user.id)))
		}
	}
	i.mu.Lock()
	for _, root := range i.open {
		root.Close()
	}
	clear(i.open)
	i.mu.Unlock()
	if err != nil {
		return fmt.Errorf("local: %w", err)
	}
	if i.user.own {
		i.backend.users.Release(i.user.id)
	}
	i.backend.instances.Remove(i)
	return nil
}

// kill ends everything in the sandbox. Whose outcome is unknown cannot be asked
// any more: its supervisor has died, and others see to it.
func (i *instance) kill() error {
	var all errgroup.Group
	for _, p := range i.live.Take() {
		all.Go(func() error {
			p.DiscardOutput()
			err := p.Kill()
			var survivors *backend.SurvivorsError
			if errors.As(err, &survivors) {
				i.live.Add(p)
				return err
			}
			return nil
		})
	}
	err := all.Wait()
	if i.user.own && i.used.Load() {
		err = i.backend.sweep(int64(i.user.id))
	}
	return err
}

// How long a sweep goes on, and waits between two passes.
const (
	sweepTime = 10 * time.Second
	passTime  = 10 * time.Millisecond
)

// sweep ends every process of a user that belongs to one sandbox.
func (b *Backend) sweep(user int64) error {
	for begin := time.Now(); ; time.Sleep(passTime) {
		pass := b.sweeps.ask(user)
		switch {
		case pass.err != nil:
			return pass.err
		case len(pass.left) == 0:
			return nil
		case time.Since(begin) > sweepTime:
			return &backend.SurvivorsError{Survivors: pass.left}
		}
	}
}

// A pass is what came of one pass over a user's processes.
type pass struct {
	left []backend.Survivor
	err  error
}

// sweepOnce makes one pass over users.
func (b *Backend) sweepOnce(users []int64) map[int64]pass {
	left, err := b.runner.sweep(context.Background(), users)
	passes := make(map[int64]pass)
	for _, user := range users {
		passes[user] = pass{left[user], err}
	}
	return passes
}
