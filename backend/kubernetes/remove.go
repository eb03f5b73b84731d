package kubernetes

import (
	"context"
	"errors"
	"maps"
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

// delete deletes the pod of that name and uid, and returns when it is gone.
func (b *Backend) delete(ctx context.Context, name string, uid types.UID) error {
	grace := stopGrace
	opts := metav1.DeleteOptions{GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &uid}}
	asked := false
	for poll := minGonePoll; ; poll = min(2*poll, maxGonePoll) {
		bounded, cancel := context.WithTimeout(ctx, answerTime)
		pod, err := b.pods.Get(bounded, name, metav1.GetOptions{})
		if err == nil && pod.UID == uid && !asked {
			err = b.pods.Delete(bounded, name, opts)
			asked = err == nil
		}
		cancel()
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err), err == nil && pod.UID != uid:
			return nil // a conflict is that another pod has the name
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

// discard deletes the pod of a failed creation. What cannot be deleted now is kept in
// mind, and deleted when the API server answers again.
func (b *Backend) discard(ctx context.Context, name string, uid types.UID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	err := b.delete(ctx, name, uid)
	if err != nil {
		b.mu.Lock()
		b.pending[name] = uid
		b.mu.Unlock()
	}
	return err
}

// deletePending deletes what could not be deleted before.
func (b *Backend) deletePending(ctx context.Context) error {
	b.mu.Lock()
	pods := maps.Clone(b.pending)
	b.mu.Unlock()
	var errs []error
	for name, uid := range pods {
		if err := b.delete(ctx, name, uid); err != nil {
			errs = append(errs, err)
			continue
		}
		b.mu.Lock()
		delete(b.pending, name)
		b.mu.Unlock()
	}
	return errors.Join(errs...)
}

// tidy deletes the owner's pods that have ended, and leases that nobody has renewed for
// long.
func (b *Backend) tidy(ctx context.Context) error {
	found, err := b.pods.List(ctx, b.owned())
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(removeAtOnce)
	for _, pod := range found.Items {
		if ours(&pod) && (pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded) {
			group.Go(func() error { return b.delete(ctx, pod.Name, pod.UID) })
		}
	}
	return errors.Join(group.Wait(), b.deleteOldLeases(ctx))
}

// ours reports whether this package made a pod that carries its labels.
func ours(pod *corev1.Pod) bool { return pod.Name == podName(pod.Labels[labelID]) }
