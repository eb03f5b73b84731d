package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/contained"
)

// An instance is one pod with an agent in it.
type instance struct {
	*contained.Instance
	b *Backend
	removal

	ends time.Time // when the claim ends, as far as prolong knows, which alone uses it

	mu      sync.Mutex // guards what follows
	pod     *corev1.Pod
	changed chan struct{} // closed when pod changes
}

var (
	_ backend.Filer  = (*instance)(nil)
	_ backend.Dialer = (*instance)(nil)
)

// newInstance returns the instance of a pod. Fresh says that no command ever ran there.
func (b *Backend) newInstance(pod *corev1.Pod, user string, fresh bool) *instance {
	i := &instance{b: b, removal: removalOf(pod), pod: pod, changed: make(chan struct{})}
	i.Instance = contained.New(contained.Options{Container: &place{i, user}, User: user, Fresh: fresh, Background: &b.done})
	return i
}

// present returns the pod as it was seen last, and a channel that is closed when it
// changes.
func (i *instance) present() (*corev1.Pod, <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.pod, i.changed
}

// update takes what was seen of the pod, and notes when it has ended.
func (i *instance) update(pod *corev1.Pod) {
	i.mu.Lock()
	if i.pod.ResourceVersion != pod.ResourceVersion {
		i.pod = pod
		close(i.changed)
		i.changed = make(chan struct{})
	}
	i.mu.Unlock()
	if how := i.b.ending(pod); how != "" {
		i.Die(i.death(how))
	}
}

func (i *instance) death(how string) error {
	return fmt.Errorf("kubernetes: pod %s %s", i.name, how)
}

// Destroy deletes the pod, and waits until the kubelet has ended all that runs in it.
func (i *instance) Destroy(ctx context.Context) error {
	i.End(errDestroyed)
	if err := i.b.delete(ctx, i.removal); err != nil {
		return fmt.Errorf("kubernetes: delete pod %s: %w", i.name, i.b.clusterError(err))
	}
	i.b.forget(i)
	return nil
}

var errDestroyed = errors.New("kubernetes: the sandbox was destroyed")
