//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"context"
	"errors"
	"syscall"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/proc"
)

// A groupRunner runs commands as process groups of the service.
type groupRunner struct{}

func (groupRunner) containment() backend.Containment { return backend.ContainmentProcessGroup }

func (groupRunner) prepare() error { return nil }

func (groupRunner) start(ctx context.Context, o *startRequest, spec *backend.Spec) (process, error) {
	c := proc.Command{Shell: o.shell, Argv: o.argv, Dir: o.dir, Env: o.env, Group: o.group}
	if o.user.own {
		c.Credential = &syscall.Credential{Uid: o.user.id, Gid: o.user.id}
	}
	g, err := proc.StartGroup(&c, spec)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		g.DiscardOutput()
		if err := g.Kill(); err != nil {
			return nil, err
		}
		return nil, ctx.Err()
	}
	return g, nil
}

// files has the service itself reach them, which it may only do as the user whose
// they are.
func (groupRunner) files(i *instance, dir string) (backend.Filer, error) {
	if i.user.own {
		return nil, errors.ErrUnsupported
	}
	return i.tree(dir)
}

// sweep does nothing: a process that may signal as that user alone is what this
// runner does not have.
func (groupRunner) sweep(context.Context, []int64) (map[int64][]backend.Survivor, error) {
	return nil, nil
}

func (groupRunner) close() {}
