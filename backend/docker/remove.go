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

// remove removes the container and the volume of that name, and returns when
// both are gone.
func (b *Backend) remove(ctx context.Context, name string) error {
	err := gone(ctx, func() error {
		_, err := b.api.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return err
	})
	if err != nil {
		return engineError(b.host, err)
	}
	err = gone(ctx, func() error {
		_, err := b.api.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
		return err
	})
	return engineError(b.host, err)
}

// gone calls remove until there is nothing left to remove. A conflict is the
// engine's own removal of a container that has ended, or what it still holds. An
// internal error may be of a directory that the engine itself still writes to.
func gone(ctx context.Context, remove func() error) error {
	for tries := 1; ; {
		switch err := remove(); {
		case err == nil || errdefs.IsNotFound(err):
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
func (b *Backend) discard(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	err := b.remove(ctx, name)
	if err != nil {
		b.mu.Lock()
		b.debris[name] = true
		b.mu.Unlock()
	}
	return err
}

// removeDebris removes what could not be removed before.
func (b *Backend) removeDebris(ctx context.Context) error {
	b.mu.Lock()
	names := slices.Collect(maps.Keys(b.debris))
	b.mu.Unlock()
	var errs []error
	for _, name := range names {
		if err := b.remove(ctx, name); err != nil {
			errs = append(errs, err)
			continue
		}
		b.mu.Lock()
		delete(b.debris, name)
		b.mu.Unlock()
	}
	return errors.Join(errs...)
}
