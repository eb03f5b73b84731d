package kubernetes

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// How long to wait before an API server that did not do what was asked is asked again.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// watchSeconds is how long one watch lasts: after it all pods are listed, so that what a
// watch did not tell is seen too.
const watchSeconds int64 = 300

// watch follows what becomes of the pods that this process holds, until ctx ends. The
// stream of an exec may stay open when its pod is gone.
func (b *Backend) watch(ctx context.Context) {
	backoff := minBackoff
	for ctx.Err() == nil {
		if version, ok := b.list(ctx); ok {
			backoff = minBackoff
			b.follow(ctx, version)
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// list sees what has become of the pods. It returns the version from which on to watch
// them, and whether the API server answered.
func (b *Backend) list(ctx context.Context) (string, bool) {
	sandboxes := b.sandboxes() // before the list, so that it has those that live
	bounded, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	found, err := b.pods.List(bounded, b.held())
	if err != nil {
		return "", false
	}
	seen := make(map[types.UID]*corev1.Pod)
	for n := range found.Items {
		seen[found.Items[n].UID] = &found.Items[n]
	}
	for _, i := range sandboxes {
		if pod := seen[i.uid]; pod != nil {
			i.update(pod)
		} else {
			i.look(bounded)
		}
	}
	b.deletePending(bounded)
	return found.ResourceVersion, true
}

// follow takes what the API server tells of pods until it ends that.
func (b *Backend) follow(ctx context.Context, version string) {
	opts, seconds := b.held(), watchSeconds
	opts.ResourceVersion, opts.TimeoutSeconds, opts.AllowWatchBookmarks = version, &seconds, true
	w, err := b.pods.Watch(ctx, opts)
	if err != nil {
		return
	}
	defer w.Stop()
	for {
		select {
		case e, ok := <-w.ResultChan():
			pod, isPod := e.Object.(*corev1.Pod)
			switch {
			case !ok || e.Type == watch.Error:
				return
			case !isPod || e.Type == watch.Bookmark:
				continue
			}
			i := b.lookup(pod.UID)
			if i == nil {
				continue
			}
			i.update(pod)
			if e.Type == watch.Deleted { // or its label changed, which update has seen
				i.Die(i.death("was deleted"))
			}
		case <-ctx.Done():
			return
		}
	}
}
