package docker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox/backend"
)

// detachWait is how long the agent of a service that died may take to end.
const detachWait = 2 * time.Second

// Recover reattaches to the containers of the owner that no process is connected to. Those
// whose agent this package cannot talk to are removed.
func (b *Backend) Recover(ctx context.Context) ([]backend.Recovered, error) {
	if !b.begin() {
		return nil, errClosed
	}
	defer b.done.Done()
	found, err := b.api.ContainerList(ctx, client.ContainerListOptions{Filters: ownedBy(b.opts.Owner)})
	if err != nil {
		return nil, engineError(b.host, err)
	}
	var opened []backend.Recovered
	var errs []error
	until := time.Now().Add(detachWait)
	for _, c := range found.Items {
		if !ours(c) || c.State != container.StateRunning || b.lookup(c.ID) != nil {
			continue
		}
		o, err := b.open(ctx, c, until)
		if err != nil {
			errs = append(errs, err)
		}
		if o != nil {
			opened = append(opened, *o)
		}
	}
	slices.SortFunc(opened, func(x, y backend.Recovered) int { return x.CreatedAt.Compare(y.CreatedAt) })
	return opened, errors.Join(errs...)
}

// open reattaches to one container. It returns nil when another process holds it or
// it was of no use.
func (b *Backend) open(ctx context.Context, c container.Summary, until time.Time) (*backend.Recovered, error) {
	found, err := b.idle(ctx, c.ID, until)
	if found == nil || err != nil {
		return nil, err
	}
	cfg := new(backend.Config)
	if err := json.Unmarshal([]byte(c.Labels[labelConfig]), cfg); err != nil {
		return nil, b.remove(ctx, c.ID, c.Labels[labelVolume])
	}
	i := b.newInstance(c.ID, namePrefix+c.Labels[labelID], c.Labels[labelVolume], found.Config.Env, cfg, string(found.HostConfig.NetworkMode), false)
	if err := b.add(i); err != nil {
		return nil, err
	}
	if _, err := i.Connect(ctx); err != nil {
		if ctx.Err() != nil || errors.Is(err, NoEngine) {
			b.forget(i)
			return nil, err
		}
		return nil, i.Destroy(ctx)
	}
	return &backend.Recovered{Config: cfg, CreatedAt: labelTime(c.Labels, labelCreated), Instance: i}, nil
}

// idle inspects a container until nothing of a service runs in it, and returns
// nil when something still does at until: then another process holds it.
func (b *Backend) idle(ctx context.Context, id string, until time.Time) (*container.InspectResponse, error) {
	for {
		found, err := b.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		if noContainer(err) {
			return nil, nil
		}
		if err != nil {
			return nil, engineError(b.host, err)
		}
		served, err := b.anyRuns(ctx, found.Container.ExecIDs)
		if err != nil {
			return nil, err
		}
		if !served {
			return &found.Container, nil
		}
		if time.Now().After(until) {
			return nil, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(removePoll):
		}
	}
}

// anyRuns reports whether one of these execs has not ended. Podman keeps the ids of
// those that have.
func (b *Backend) anyRuns(ctx context.Context, execs []string) (bool, error) {
	for _, id := range execs {
		found, err := b.api.ExecInspect(ctx, id, client.ExecInspectOptions{})
		if err != nil && !errdefs.IsNotFound(err) {
			return false, engineError(b.host, err)
		}
		if err == nil && found.Running {
			return true, nil
		}
	}
	return false, nil
}
