package kubernetes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent"
	"github.com/sandbox-go/sandbox/internal/agent/contained"
)

const (
	// roomTime is how long a pod may wait for a node.
	roomTime = 2 * time.Minute

	// How often to try a container that may run by now: the kubelet tells what has become
	// of one only about once a second. Where it takes longer, tries would make it longer
	// still.
	minTry = 200 * time.Millisecond
	maxTry = 5 * time.Second
)

// Create makes a pod and connects to its agent, for as long as the context allows.
func (b *Backend) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	if !b.begin() {
		return nil, errClosed
	}
	defer b.done.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.alive, func() { cancel(errClosed) })()
	if err := b.unsupported(cfg); err != nil {
		return nil, err
	}
	pod, err := b.obtain(ctx, cfg)
	if err != nil {
		return nil, unanswered(ctx, err)
	}
	i := b.newInstance(pod, cfg.User, true)
	if err = b.add(i); err == nil {
		err = i.join(ctx, cfg)
	}
	if err != nil {
		i.End(errDestroyed)
		err = errors.Join(unanswered(ctx, err), b.discard(ctx, i.removal))
		b.forget(i)
		return nil, err
	}
	return i, nil
}

// obtain makes a pod, or takes one of the warm pool.
func (b *Backend) obtain(ctx context.Context, cfg *backend.Config) (*corev1.Pod, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if b.opts.WarmPool != "" {
		return b.claim(ctx, cfg)
	}
	pod, err := b.pod(cfg)
	if err != nil {
		return nil, err
	}
	return b.launch(ctx, cfg, pod)
}

// launch makes the pod. The call is not broken off: what it makes could then not be found
// and deleted.
func (b *Backend) launch(ctx context.Context, cfg *backend.Config, pod *corev1.Pod) (*corev1.Pod, error) {
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	made, err := b.pods.Create(whole, pod, metav1.CreateOptions{})
	if err != nil {
		err = b.refusal(pod.Name, err)
		if errors.Is(err, NameTaken) || !errors.Is(err, NoCluster) {
			return nil, err
		}
		// It may have been made without an answer.
		found, lost := b.pods.Get(whole, pod.Name, metav1.GetOptions{})
		if lost == nil && found.Labels[labelHolder] == b.replica && found.Labels[labelID] == cfg.ID {
			err = errors.Join(err, b.discard(ctx, removalOf(found)))
		}
		return nil, err
	}
	return made, nil
}

// join puts the agent in, makes the first connection to it, and sees whether the limits
// hold.
func (i *instance) join(ctx context.Context, cfg *backend.Config) error {
	begin := time.Now()
	sent := false
	for try := minTry; ; try = min(2*try, maxTry) {
		pod, changed := i.present()
		if err := i.b.stuck(pod, time.Since(begin)); err != nil {
			return err
		}
		if cause := context.Cause(i.Alive()); cause != nil {
			return cause
		}
		if c := statusOf(pod.Status.InitContainerStatuses, InitContainerName); c != nil && c.State.Terminated != nil && !sent {
			sent, try = true, minTry
		}
		switch {
		case pod.Spec.NodeName == "":
		case !sent:
			if err := i.send(ctx); err == nil {
				sent, try = true, minTry
			} else if errors.Is(err, BadImage) {
				return err
			}
		default:
			held, err := i.Connect(ctx)
			if err == nil {
				return enforced(contained.FillLimits(cfg.Limits, i.b.opts.Limits), held)
			}
			if errors.Is(err, errRefused) {
				return &Error{BadImage, imageOf(pod, ContainerName), "let its /workspace, /home/user and /tmp be directories, or leave them out", err}
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-time.After(try):
			if try == maxTry { // the watch may be silent
				i.look(ctx)
			}
		}
	}
}

// send sends the agent to the init container, if that waits for it.
func (i *instance) send(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	argv := []string{"sh", "-c", send, "sh"}
	for _, arch := range architectures {
		size, err := agent.Size(arch)
		if err != nil {
			return err
		}
		argv = append(argv, strconv.Itoa(size))
	}
	stream, err := i.b.exec(i.name, InitContainerName, argv)
	if err != nil {
		return err
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	out := bufio.NewReader(stream)
	name, err := out.ReadString('\n')
	if err != nil {
		return err
	}
	arch := machine(strings.TrimSpace(name))
	program, _, err := agent.Binary(arch)
	if err != nil {
		return &Error{BadImage, i.name, "have it run on nodes for linux/amd64 or linux/arm64, by Options.Template", err}
	}
	if _, err := stream.Write(program); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, out); err != nil { // until the program has ended
		return err
	}
	return nil
}

// stuck returns an error when a pod that waits for its containers waits in vain.
func (b *Backend) stuck(pod *corev1.Pod, since time.Duration) error {
	for _, all := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for n := range all {
			if err := b.failed(pod, &all[n]); err != nil {
				return err
			}
		}
	}
	if pod.Spec.NodeName == "" && since > roomTime {
		why := errors.New("no scheduler has given it a node")
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				why = errors.New(c.Message)
			}
		}
		return &Error{NoRoom, pod.Name, "add nodes, or lower Options.Limits or what Options.Template asks for", why}
	}
	if pod.Status.Phase == corev1.PodFailed {
		return &Error{BadPod, pod.Name, "see what the cluster says of it", errors.New(b.ending(pod))}
	}
	return nil
}

// failed returns an error when a container cannot start, or the agent was not taken in.
func (b *Backend) failed(pod *corev1.Pod, c *corev1.ContainerStatus) error {
	image := imageOf(pod, c.Name)
	if w := c.State.Waiting; w != nil {
		why := fmt.Errorf("%s: %s", w.Reason, w.Message)
		switch w.Reason {
		case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "RegistryUnavailable", "ImageInspectError":
			return &Error{NoImage, image, "check its name, and that the nodes reach its registry and may read from it", why}
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			return b.badImage(pod, c.Name, why)
		}
	}
	if t := c.State.Terminated; t != nil && c.Name == InitContainerName && t.ExitCode != 0 {
		return b.badImage(pod, c.Name, fmt.Errorf("%s: %s", terminated(t), strings.TrimSpace(t.Message)))
	}
	return nil
}

func (b *Backend) badImage(pod *corev1.Pod, container string, why error) error {
	advice := "change the image, or Options.Template"
	if container == InitContainerName {
		advice = "name an image with sh, cat, chmod, head, mv, sha256sum, sleep, uname and wc in Options.AgentImage, such as busybox"
	}
	return &Error{BadImage, imageOf(pod, container), advice, why}
}

// imageOf returns the image of the container of that name.
func imageOf(pod *corev1.Pod, name string) string {
	for _, all := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range all {
			if c.Name == name {
				return c.Image
			}
		}
	}
	return name
}

// enforced returns an error that names the limits in want that are not kept by held.
func enforced(want, held backend.Limits) error {
	names := contained.Unenforced(want, held)
	if len(names) == 0 {
		return nil
	}
	return &Error{NoLimit, strings.Join(names, ", "), "let the nodes have control groups, or accept sandboxes without by a negative number in Options or Config", errors.ErrUnsupported}
}
