package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbox-go/sandbox/backend"
)

// lookEvery is how often to look whether a lease was renewed.
const lookEvery = time.Second

// Recover takes over the owner's pods that no process holds. A process that was killed
// holds its pods until its lease was not renewed for 15 s, for which Recover waits. Those
// whose agent this package cannot talk to are deleted.
func (b *Backend) Recover(ctx context.Context) ([]backend.Recovered, error) {
	if !b.begin() {
		return nil, errClosed
	}
	defer b.done.Done()
	free, err := b.free(ctx)
	if err != nil {
		return nil, b.clusterError(err)
	}
	var opened []backend.Recovered
	var errs []error
	for _, pod := range free {
		o, err := b.takeOver(ctx, pod)
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

// free returns the owner's pods that have not ended and that no process holds, also those
// that are not said to run yet: their process may have been killed while it made them, or
// before the kubelet said so. Whether one is held is seen by this process's clock alone: a
// lease that is renewed while it looks is held.
func (b *Backend) free(ctx context.Context) ([]*corev1.Pod, error) {
	found, err := b.pods.List(ctx, b.owned())
	if err != nil {
		return nil, err
	}
	others := make(map[string][]*corev1.Pod) // by the name of the lease
	for n := range found.Items {
		pod := &found.Items[n]
		holder := pod.Labels[labelHolder]
		if ours(pod) && (holder != b.replica || b.isTaken(pod.UID)) && pod.DeletionTimestamp == nil && !hasEnded(pod) {
			others[holder] = append(others[holder], pod)
		}
	}
	if len(others) == 0 {
		return nil, nil
	}
	var free []*corev1.Pod
	first, err := b.renewals(ctx)
	if err != nil {
		return nil, err
	}
	for begin, now := time.Now(), first; ; {
		for holder, pods := range others {
			renewed, exists := now[holder]
			switch {
			case !exists, holder == b.replica, time.Since(begin) > leaseTime:
				free = append(free, pods...)
				fallthrough
			case !renewed.Equal(first[holder]):
				delete(others, holder)
			}
		}
		if len(others) == 0 {
			return free, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lookEvery):
		}
		if now, err = b.renewals(ctx); err != nil {
			return nil, err
		}
	}
}

// takeOver makes this process the holder of a pod, if nobody else has become it
// meanwhile, and connects to it. It returns nil when somebody has, or it was of no use.
func (b *Backend) takeOver(ctx context.Context, pod *corev1.Pod) (*backend.Recovered, error) {
	const path = "/metadata/labels/"
	label := path + strings.ReplaceAll(labelHolder, "/", "~1")
	patch, err := json.Marshal([]map[string]string{
		{"op": "test", "path": "/metadata/uid", "value": string(pod.UID)},
		{"op": "test", "path": label, "value": pod.Labels[labelHolder]},
		{"op": "replace", "path": label, "value": b.replica},
	})
	if err != nil {
		return nil, err
	}
	taken, err := b.pods.Patch(ctx, pod.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
	switch {
	case apierrors.IsInvalid(err), apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil, nil
	case err != nil:
		return nil, b.clusterError(err)
	}
	cfg := new(backend.Config)
	if err := json.Unmarshal([]byte(taken.Annotations[annotationConfig]), cfg); err != nil {
		return nil, b.delete(ctx, removalOf(taken))
	}
	i := b.newInstance(taken, cfg.User, false)
	if err := b.add(i); err != nil {
		return nil, err
	}
	b.noteTaken(i.uid, false)
	if _, err := i.Connect(ctx); err != nil {
		if ctx.Err() != nil || errors.Is(err, NoCluster) || errors.Is(err, NoNode) {
			b.noteTaken(i.uid, true)
			i.End(errDestroyed)
			b.forget(i)
			return nil, err
		}
		return nil, i.Destroy(ctx)
	}
	return &backend.Recovered{Config: cfg, CreatedAt: created(taken), Instance: i}, nil
}

// noteTaken notes whether a pod is one that was taken over and could not be connected to.
func (b *Backend) noteTaken(uid types.UID, taken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if taken {
		b.taken[uid] = true
	} else {
		delete(b.taken, uid)
	}
}

func (b *Backend) isTaken(uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken[uid]
}
