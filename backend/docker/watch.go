package docker

import (
	"context"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"
)

// How long to wait before an engine that did not do what was asked is asked again.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// lookEvery is how often to ask which containers run: the engine's events and the
// connections to the agents may be silent about what has ended.
const lookEvery = 10 * time.Second

// watch follows the engine's events about the owner's containers until ctx ends.
// The end of a container ends the connection to its agent too; that somebody
// paused it shows only here.
func (b *Backend) watch(ctx context.Context) {
	filters := ownedBy(b.opts.Owner).Add("type", string(events.ContainerEventType)).Add("event",
		string(events.ActionDestroy), string(events.ActionDie), string(events.ActionOOM), string(events.ActionPause), string(events.ActionUnPause),
		podmanDied, podmanRemove)
	backoff := minBackoff
	for ctx.Err() == nil {
		stream := b.api.Events(ctx, client.EventsListOptions{Filters: filters})
		if b.look(ctx) {
			backoff = minBackoff
		}
		b.follow(ctx, stream)
		select {
		case <-ctx.Done():
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// patrol looks at the containers every lookEvery until ctx ends.
func (b *Backend) patrol(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if len(b.sandboxes()) > 0 {
				b.look(ctx)
			}
		case <-ctx.Done():
			return
		}
	}
}

// look sees which containers have ended or are paused, and reports whether the engine
// answers.
func (b *Backend) look(ctx context.Context) bool {
	sandboxes := b.sandboxes() // before the list, so that it has those that run
	bounded, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	found, err := b.api.ContainerList(bounded, client.ContainerListOptions{Filters: ownedBy(b.opts.Owner)})
	if err != nil {
		return false
	}
	run := make(map[string]bool)
	for _, c := range found.Items {
		run[c.ID] = c.State == container.StateRunning
	}
	for _, i := range sandboxes {
		if !run[i.container] || i.isPaused() {
			i.check(ctx)
		}
	}
	bounded, cancel = context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	b.removePending(bounded)
	return true
}

// follow takes events from stream until it ends.
func (b *Backend) follow(ctx context.Context, stream client.EventsResult) {
	for {
		select {
		case e := <-stream.Messages:
			if i := b.lookup(e.Actor.ID); i != nil {
				i.event(e)
			}
		case <-stream.Err:
			return
		case <-ctx.Done():
			return
		}
	}
}
