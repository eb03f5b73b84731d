package fake

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/sandbox-go/sandbox/backend"
)

// environment is what a command has before its sandbox and itself add to it.
var environment = []string{
	"PATH=/usr/local/bin:/usr/bin:/bin",
	"HOME=/workspace",
	"USER=user",
	"LOGNAME=user",
	"LANG=C.UTF-8",
	"TMPDIR=/tmp",
}

// instance is one sandbox.
type instance struct {
	b     *Backend
	id    string
	gone  chan struct{} // closed when it has died
	ended chan struct{} // closed when it was destroyed

	mu       sync.Mutex // guards what follows
	commands map[*command]struct{}
	pid      int      // the last one given
	root     *os.Root // of the files, once they have been asked for
	ports    map[int]*listener
	lost     bool
	closing  bool
	removed  bool
}

func newInstance(b *Backend, id string) *instance {
	return &instance{
		b:        b,
		id:       id,
		gone:     make(chan struct{}),
		ended:    make(chan struct{}),
		commands: make(map[*command]struct{}),
		ports:    make(map[int]*listener),
		pid:      1,
	}
}

func (i *instance) Start(ctx context.Context, spec *backend.Spec) (backend.Process, error) {
	cmd := &Command{
		Sandbox: i.id,
		Shell:   spec.Shell,
		Argv:    slices.Clone(spec.Argv),
		Dir:     spec.Dir,
		Env:     spec.Environ(environment),
		User:    spec.User,
	}
	c, err := i.start(ctx, cmd, spec)
	i.b.record(Call{Op: OpStart, Sandbox: i.id, Command: cmd, Err: err})
	if err != nil {
		return nil, err
	}
	c.begin()
	return c, nil
}

func (i *instance) start(ctx context.Context, cmd *Command, spec *backend.Spec) (*command, error) {
	if i.b.opts.Start != nil {
		if err := i.b.opts.Start(ctx, cmd); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h, err := i.b.handler(cmd)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.lost {
		return nil, fmt.Errorf("fake: %w", backend.ErrGone)
	}
	if i.closing {
		return nil, fmt.Errorf("fake: it was destroyed: %w", backend.ErrGone)
	}
	c := newCommand(i, cmd, spec, h)
	i.commands[c] = struct{}{}
	return c, nil
}

func (i *instance) Gone() <-chan struct{} { return i.gone }

func (i *instance) Destroy(ctx context.Context) error {
	i.mu.Lock()
	removed := i.removed
	i.mu.Unlock()
	if removed {
		return nil
	}
	err := i.destroy(ctx)
	i.b.record(Call{Op: OpDestroy, Sandbox: i.id, Err: err})
	return err
}

func (i *instance) destroy(ctx context.Context) error {
	if i.b.opts.Destroy != nil {
		if err := i.b.opts.Destroy(ctx, i.id); err != nil {
			return err
		}
	}
	i.mu.Lock()
	i.closing = true
	i.mu.Unlock()
	for _, c := range i.all() {
		if err := c.end(ctx); err != nil {
			return err
		}
	}
	if err := i.removeFiles(); err != nil {
		return err
	}
	i.b.forget(i)
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.removed {
		close(i.ended)
	}
	i.removed = true
	return nil
}

// lose ends the sandbox without its owner's doing.
func (i *instance) lose() {
	i.mu.Lock()
	known := i.lost || i.closing
	i.lost = true
	i.mu.Unlock()
	if known {
		return
	}
	close(i.gone)
	for _, c := range i.all() {
		c.lose(errGone)
	}
}

// all returns the commands of which anything is left.
func (i *instance) all() []*command {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := make([]*command, 0, len(i.commands))
	for c := range i.commands {
		all = append(all, c)
	}
	return all
}

func (i *instance) nextPID() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pid++
	return i.pid
}

func (i *instance) forget(c *command) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.commands, c)
}
