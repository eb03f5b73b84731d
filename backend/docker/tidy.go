package docker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"
)

// creating is how long a container may be between its creation and its start.
const creating = time.Minute

// tidy removes what earlier processes of the owner left and nobody can use any
// more: containers that have ended or whose time is over, and volumes without a
// container.
func (b *Backend) tidy(ctx context.Context) error {
	found, err := b.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ownedBy(b.opts.Owner)})
	if err != nil {
		return engineError(b.host, err)
	}
	now := time.Now()
	kept := make(map[string]bool)
	var group errgroup.Group
	group.SetLimit(removeAtOnce)
	for _, c := range found.Items {
		if !ours(c) {
			continue
		}
		volume := c.Labels[labelVolume]
		if !useless(c, now) {
			kept[volume] = true
			continue
		}
		group.Go(func() error { return b.remove(ctx, c.ID, volume) })
	}
	return errors.Join(group.Wait(), b.removeVolumes(ctx, kept), b.removeOldAgents(ctx))
}

// ours reports whether this package made a container that carries its labels. An
// image that somebody made of a sandbox, as docker commit does, carries them too,
// and so does what runs it.
func ours(c container.Summary) bool {
	return slices.Contains(c.Names, "/"+namePrefix+c.Labels[labelID])
}

// useless reports whether a container can serve nobody any more.
func useless(c container.Summary, now time.Time) bool {
	switch c.State {
	case container.StateRunning, container.StatePaused, container.StateRestarting:
		return expired(c.Labels, now)
	case container.StateCreated:
		return now.Sub(labelTime(c.Labels, labelCreated)) > creating
	case container.StateRemoving:
		return false
	default:
		return true
	}
}

// removeVolumes removes the owner's volumes whose container is not in kept. The
// engine refuses where a container has come into being meanwhile.
func (b *Backend) removeVolumes(ctx context.Context, kept map[string]bool) error {
	found, err := b.api.VolumeList(ctx, client.VolumeListOptions{Filters: ownedBy(b.opts.Owner)})
	if err != nil {
		return engineError(b.host, err)
	}
	var errs []error
	for _, v := range found.Items {
		if kept[v.Name] {
			continue
		}
		_, err := b.api.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{})
		if err != nil && !errdefs.IsConflict(err) && !errdefs.IsNotFound(err) {
			errs = append(errs, engineError(b.host, err))
		}
	}
	return errors.Join(errs...)
}
