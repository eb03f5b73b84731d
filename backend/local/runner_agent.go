//go:build linux && (amd64 || arm64)

package local

import (
	"context"
	"errors"
	"sync"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/proc"
)

func newRunner(dir string, groups bool) runner {
	if groups {
		return groupRunner{}
	}
	return &agentRunner{dir: dir}
}

// An agentRunner runs commands through an agent, which it starts when it is first
// needed, and again when it has died. What ran then is lost; the sandboxes are not.
type agentRunner struct {
	dir string

	mu     sync.Mutex // guards what follows
	agent  *agentclient.Local
	closed bool
}

func (*agentRunner) containment() backend.Containment { return backend.ContainmentSupervisor }

func (r *agentRunner) prepare() error {
	_, err := r.running()
	return err
}

// running returns an agent that runs.
func (r *agentRunner) running() (*agentclient.Local, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	if r.agent != nil {
		select {
		case <-r.agent.Done():
		default:
			return r.agent, nil
		}
	}
	a, err := agentclient.NewLocal(r.dir)
	if err != nil {
		return nil, err
	}
	r.agent = a
	return a, nil
}

// with calls f with an agent, and again with the next one when that has ended and
// f has done nothing.
func (r *agentRunner) with(f func(*agentclient.Local) error) error {
	for {
		a, err := r.running()
		if err != nil {
			return err
		}
		if err := f(a); !errors.Is(err, agentclient.ErrEnded) {
			return err
		}
		<-a.Done()
	}
}

func (r *agentRunner) start(ctx context.Context, o *startRequest, spec *backend.Spec) (p process, err error) {
	start := &wire.Start{Shell: o.shell, Argv: o.argv, Dir: o.dir, Env: o.env, UID: -1, GID: -1, Group: o.group}
	if o.user.own {
		start.UID, start.GID, start.Own = int64(o.user.id), int64(o.user.id), true
	}
	asked := false
	err = r.with(func(a *agentclient.Local) error {
		started, err := a.Start(ctx, start, spec)
		if err == nil {
			p = started
		}
		asked = !errors.Is(err, agentclient.ErrEnded)
		return err
	})
	if err != nil && !asked && !errors.Is(err, backend.ErrGone) {
		err = proc.Lacking(err) // no agent could be started
	}
	return p, err
}

func (r *agentRunner) files(i *instance, dir string) (backend.Filer, error) {
	if err := i.restore(); err != nil { // a process that was kept does not
		return nil, err
	}
	return i.helpers.Below(dir), nil
}

func (r *agentRunner) sweep(ctx context.Context, users []int64) (left map[int64][]backend.Survivor, err error) {
	err = r.with(func(a *agentclient.Local) error {
		left, err = a.Sweep(ctx, users)
		return err
	})
	return left, err
}

func (r *agentRunner) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.agent != nil {
		r.agent.Close()
		r.agent = nil
	}
}
