package docker

import (
	"context"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"
)

// How long to wait before events are asked for again.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// watch follows the engine's events about the owner's containers until ctx ends.
// The end of a container ends the connection to its agent too; that somebody
// paused it shows only here. Sandboxes that have lost their connection get a new
// one when the engine is back: a container counts itself abandoned without.
func (b *Backend) watch(ctx context.Context) {
	filters := ownedBy(b.opts.Owner).Add("type", string(events.ContainerEventType)).Add("event",
		string(events.ActionDestroy), string(events.ActionDie), string(events.ActionOOM), string(events.ActionPause), string(events.ActionUnPause))
	backoff := minBackoff
	for ctx.Err() == nil {
		stream := b.api.Events(ctx, client.EventsListOptions{Filters: filters})
		if b.catchUp(ctx) {
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

// catchUp looks at what happened while nobody listened, and reports whether the
// engine answers.
func (b *Backend) catchUp(ctx context.Context) bool {
	if _, err := b.api.Ping(ctx, client.PingOptions{}); err != nil {
		return false
	}
	for _, i := range b.sandboxes() {
		if i.check(ctx); i.unlinked() {
			bounded, cancel := context.WithTimeout(ctx, answerTime)
			i.connect(bounded)
			cancel()
		}
	}
	b.removePending(ctx)
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
