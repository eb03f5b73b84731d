package kubernetes

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// How often to look whether a pod is gone.
const (
	minGonePoll = 50 * time.Millisecond
	maxGonePoll = time.Second
)

// A removal is what has to be deleted of a sandbox.
type removal struct {
	name string // of the pod; empty where there is none
	uid  types.UID

	claim    string // the name of the claim that the pod was taken by; empty without one
	claimUID types.UID
}

// removalOf returns what has to be deleted of the sandbox in that pod.
func removalOf(pod *corev1.Pod) removal {
	r := removal{name: pod.Name, uid: pod.UID}
	if uid := pod.Annotations[annotationClaim]; uid != "" {
		r.claim, r.claimUID = podName(pod.Labels[labelID]), types.UID(uid)
	}
	return r
}

// delete deletes the claim first, since the pod would be made again for it, then the pod,
// and returns when they are gone.
func (b *Backend) delete(ctx context.Context, r removal) error {
	if r.claim != "" {
		if err := b.deleteClaim(ctx, r.claim, r.claimUID); err != nil {
			return err
		}
	}
	if r.name == "" {
		return nil
	}
	grace := stopGrace
	opts := metav1.DeleteOptions{GracePeriodSeconds: &grace}
	get := func(ctx context.Context) (metav1.Object, error) { return b.pods.Get(ctx, r.name, metav1.GetOptions{}) }
	return deleteObject(ctx, r.uid, opts, get, func(ctx context.Context, opts metav1.DeleteOptions) error {
		return b.pods.Delete(ctx, r.name, opts)
	})
}

// deleteObject deletes what get returns if it has that uid, and returns when it is gone.
func deleteObject(ctx context.Context, uid types.UID, opts metav1.DeleteOptions, get func(context.Context) (metav1.Object, error), remove func(context.Context, metav1.DeleteOptions) error) error {
	opts.Preconditions = &metav1.Preconditions{UID: &uid}
	asked := false
	for poll := minGonePoll; ; poll = min(2*poll, maxGonePoll) {
		bounded, cancel := context.WithTimeout(ctx, answerTime)
		object, err := get(bounded)
		isOther := err == nil && object.GetUID() != uid
		if err == nil && !isOther && !asked {
			err = remove(bounded, opts)
			asked = err == nil
		}
		cancel()
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err), isOther:
			return nil // a conflict is that another has the name
		case err != nil && !retriable(err):
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(poll):
		}
	}
}

// retriable reports whether what failed is worth a second try.
func retriable(err error) bool {
	return !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err)
}

// discard deletes what a failed creation has made. What cannot be deleted now is kept in
// mind, and deleted when the API server answers again.
func (b *Backend) discard(ctx context.Context, r removal) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	err := b.delete(ctx, r)
	if err != nil {
		b.mu.Lock()
		b.pending[r] = true
		b.mu.Unlock()
	}
	return err
}

// deletePending deletes what could not be deleted before.
func (b *Backend) deletePending(ctx context.Context) error {
	b.mu.Lock()
	pending := slices.Collect(maps.Keys(b.pending))
	b.mu.Unlock()
	var errs []error
	for _, r := range pending {
		if err := b.delete(ctx, r); err != nil {
			errs = append(errs, err)
			continue
		}
		b.mu.Lock()
		delete(b.pending, r)
		b.mu.Unlock()
	}
	return errors.Join(errs...)
}

// tidy deletes the owner's pods that have ended, claims that have come to nothing, and
// leases that nobody has renewed for long.
func (b *Backend) tidy(ctx context.Context) error {
	found, err := b.pods.List(ctx, b.owned())
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(removeAtOnce)
	for _, pod := range found.Items {
		if ours(&pod) && hasEnded(&pod) {
			group.Go(func() error { return b.delete(ctx, removalOf(&pod)) })
		}
	}
	return errors.Join(group.Wait(), b.tidyClaims(ctx, found.Items), b.deleteOldLeases(ctx))
}

// ours reports whether this package made a pod that carries its labels, or has claimed it.
func ours(pod *corev1.Pod) bool {
	return pod.Name == podName(pod.Labels[labelID]) || pod.Annotations[annotationClaim] != ""
}

// hasEnded reports whether nothing runs in a pod any more.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}
