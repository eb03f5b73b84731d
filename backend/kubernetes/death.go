package kubernetes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// look asks for the pod, and notes when it is of no use any more. It reports whether the
// API server answered.
func (i *instance) look(ctx context.Context) bool {
	if i.Alive().Err() != nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	pod, err := i.b.pods.Get(ctx, i.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && pod.UID != i.uid:
		i.Die(i.death("was deleted"))
	case err != nil:
		return false
	default:
		i.update(pod)
	}
	return true
}

// ending says how a pod has ended, or is about to; or nothing.
func (b *Backend) ending(pod *corev1.Pod) string {
	if pod.Labels[labelHolder] != b.replica {
		return fmt.Sprintf("was taken over by the service with the lease %q", pod.Labels[labelHolder])
	}
	how := ""
	c := statusOf(pod.Status.ContainerStatuses, ContainerName)
	switch {
	case c != nil && c.RestartCount > 0:
		return "was restarted"
	case c != nil && c.State.Terminated != nil:
		how = terminated(c.State.Terminated)
	case pod.DeletionTimestamp != nil:
		how = "is being deleted"
	case hasEnded(pod):
		how = "ended"
	}
	if how != "" && pod.Status.Reason != "" { // as in Evicted, DeadlineExceeded
		how += fmt.Sprintf(": %s: %s", pod.Status.Reason, pod.Status.Message)
	}
	return how
}

// terminated says how a container has ended.
func terminated(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason == "OOMKilled":
		return "was killed by the kernel for memory"
	case t.Signal != 0:
		return fmt.Sprintf("was ended by signal %d", t.Signal)
	case t.ExitCode == 137:
		return "was killed"
	default:
		return fmt.Sprintf("ended with exit code %d", t.ExitCode)
	}
}

// statusOf returns the status of the container of that name, or nil.
func statusOf(all []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for n := range all {
		if all[n].Name == name {
			return &all[n]
		}
	}
	return nil
}
