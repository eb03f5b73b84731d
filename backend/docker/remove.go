package docker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

const (
	removePoll  = 20 * time.Millisecond // how often a removal by the engine itself is looked at
	removeTries = 10                    // how often one that fails is tried
)

// remove removes a container, by its id, and a volume that is its own, and returns
// when both are gone. An empty name is none.
func (b *Backend) remove(ctx context.Context, container, volume string) error {
	if err := b.removeContainer(ctx, container); err != nil {
		return err
	}
	return b.removeVolume(ctx, volume)
}

func (b *Backend) removeContainer(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	return engineError(b.host, gone(ctx, func() error {
		_, err := b.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return err
	}))
}

func (b *Backend) removeVolume(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	return engineError(b.host, gone(ctx, func() error {
		_, err := b.api.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
		return err
	}))
}

// gone calls remove until there is nothing left to remove. A conflict is the
// engine's own removal of a container that has ended, or what it still holds. An
// internal error may be of a directory that the engine itself still writes to.
func gone(ctx context.Context, remove func() error) error {
	for tries := 1; ; {
		switch err := remove(); {
		case err == nil || noContainer(err):
			return nil
		case errdefs.IsConflict(err):
		case errdefs.IsInternal(err) && tries < removeTries:
			tries++
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(removePoll):
		}
	}
}

// discard removes what a failed creation has made. What the engine cannot remove
// now is kept in mind, and removed when it answers again.
func (b *Backend) discard(ctx context.Context, p *plan) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	err := b.removeMade(ctx, p)
	if err != nil {
		b.mu.Lock()
		b.pendingRemovals[p.volume] = p
		b.mu.Unlock()
	}
	return err
}

// removeMade removes what was made of p. A creation that was not answered leaves no
// id, and the container that has the name may be anybody's: p's has the label of
// p's volume.
func (b *Backend) removeMade(ctx context.Context, p *plan) error {
	found, err := b.api.ContainerInspect(ctx, p.name, client.ContainerInspectOptions{})
	switch {
	case noContainer(err):
	case err != nil:
		return engineError(b.host, err)
	case found.Container.Config != nil && found.Container.Config.Labels[labelVolume] == p.volume:
		return b.remove(ctx, found.Container.ID, p.volume)
	}
	return b.removeVolume(ctx, p.volume)
}

// removePending removes what could not be removed before.
func (b *Backend) removePending(ctx context.Context) error {
	b.mu.Lock()
	plans := slices.Collect(maps.Values(b.pendingRemovals))
	b.mu.Unlock()
	var errs []error
	for _, p := range plans {
		if err := b.removeMade(ctx, p); err != nil {
			errs = append(errs, err)
			continue
		}
		b.mu.Lock()
		delete(b.pendingRemovals, p.volume)
		b.mu.Unlock()
	}
	return errors.Join(errs...)
}
