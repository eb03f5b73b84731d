package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbox-go/sandbox/backend"
)

const (
	// podNameAnnotation is the annotation of a Sandbox with its pod's name, which is
	// otherwise its own.
	podNameAnnotation = "agents.x-k8s.io/pod-name"

	// adoptTime is how long a claim may wait for a pod.
	adoptTime = roomTime

	// watchClaim is how long one watch of a claim lasts, in seconds: after it the claim is
	// read, so that what the watch did not tell is seen too.
	watchClaim int64 = 5

	// oldClaim is the age at which a claim that no pod was taken by is deleted.
	oldClaim = time.Hour
)

// hopeless are the reasons for a claim not to be ready that do not pass.
var hopeless = []string{"WarmPoolNotFound", "TemplateNotFound", "InvalidMetadata", "EnvVarsInjectionRejected", "VolumeClaimTemplatesError", "ClaimExpired"}

// claim takes a pod of the warm pool. As in launch, the call that makes the claim is not
// broken off.
func (b *Backend) claim(ctx context.Context, cfg *backend.Config) (*corev1.Pod, error) {
	want, err := b.claimable(cfg)
	if err != nil {
		return nil, err
	}
	made, err := b.makeClaim(ctx, cfg)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, adoptTime, &Error{NoRoom, b.opts.WarmPool,
		"see whether agent-sandbox's controller runs, and has a pod for the claim", nil})
	defer cancel()
	pod, err := b.takeClaimed(waiting, made, want)
	if err != nil {
		err = unanswered(waiting, err)
		return nil, errors.Join(err, b.discard(ctx, removal{claim: made.GetName(), claimUID: made.GetUID()}))
	}
	return pod, nil
}

// makeClaim makes the claim. Its end is put off while this process lives.
func (b *Backend) makeClaim(ctx context.Context, cfg *backend.Config) (*unstructured.Unstructured, error) {
	name := podName(cfg.ID)
	claim := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": claims.GroupVersion().String(), "kind": "SandboxClaim",
		"metadata": map[string]any{
			"name":        name,
			"labels":      map[string]any{labelOwner: ownerLabel(b.opts.Owner), labelID: cfg.ID, labelHolder: b.replica},
			"annotations": map[string]any{annotationOwner: b.opts.Owner},
		},
		"spec": map[string]any{"warmPoolRef": map[string]any{"name": b.opts.WarmPool}},
	}}
	if ends := b.claimEnds(cfg, time.Now()); !ends.IsZero() {
		lifecycle := map[string]any{"shutdownTime": ends.UTC().Format(time.RFC3339), "shutdownPolicy": "Delete"}
		unstructured.SetNestedMap(claim.Object, lifecycle, "spec", "lifecycle")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	made, err := b.customs(claims).Create(ctx, claim, metav1.CreateOptions{})
	if err == nil {
		return made, nil
	}
	if err = b.refusal(name, err); errors.Is(err, NoCluster) {
		// It may have been made without an answer.
		found, lost := b.customs(claims).Get(ctx, name, metav1.GetOptions{})
		if lost == nil && found.GetLabels()[labelHolder] == b.replica {
			err = errors.Join(err, b.discard(ctx, removal{claim: name, claimUID: found.GetUID()}))
		}
	}
	return nil, err
}

// claimEnds returns when the claim of a sandbox that was created then is to end, unless
// that is put off; zero is never.
func (b *Backend) claimEnds(cfg *backend.Config, created time.Time) time.Time {
	var ends time.Time
	if b.opts.AbandonAfter > 0 {
		ends = time.Now().Add(b.opts.AbandonAfter)
	}
	if dies := created.Add(cfg.Lifetime); cfg.Lifetime > 0 && (ends.IsZero() || dies.Before(ends)) {
		ends = dies
	}
	if ends.IsZero() {
		return ends
	}
	return ends.Add(time.Second - 1).Truncate(time.Second) // the field has no fractions
}

// takeClaimed waits until the claim has a pod, sees that it is what it is to be, and makes
// this process its holder.
func (b *Backend) takeClaimed(ctx context.Context, claim *unstructured.Unstructured, want *corev1.Pod) (*corev1.Pod, error) {
	name, err := b.assigned(ctx, claim)
	if err != nil {
		return nil, err
	}
	pod, err := b.podOf(ctx, name, claim.GetUID())
	if err != nil {
		return nil, err
	}
	if id := pod.Labels[labelID]; id != "" {
		return nil, &Error{BadPod, pod.Name, "let the pool hand out no pod twice", fmt.Errorf("it was of the sandbox %s", id)}
	}
	if d := differs(&want.Spec, &pod.Spec); d != "" {
		return nil, &Error{BadPod, pod.Name, mendPool, errors.New(d)}
	}
	set(&want.Annotations, annotationClaim, string(claim.GetUID()))
	set(&want.Annotations, annotationClaimed, claim.GetCreationTimestamp().UTC().Format(time.RFC3339))
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "labels": ownedBy(want.Labels), "annotations": ownedBy(want.Annotations),
	}})
	if err != nil {
		return nil, err
	}
	taken, err := b.pods.Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return taken, b.clusterError(err)
}

// assigned waits until the claim has a Sandbox, and returns its name.
func (b *Backend) assigned(ctx context.Context, claim *unstructured.Unstructured) (string, error) {
	seconds := watchClaim
	for {
		if name, err := assignment(claim); name != "" || err != nil {
			return name, err
		}
		w, err := b.customs(claims).Watch(ctx, metav1.ListOptions{
			FieldSelector: "metadata.name=" + claim.GetName(), ResourceVersion: claim.GetResourceVersion(), TimeoutSeconds: &seconds,
		})
		if err == nil {
			for e := range w.ResultChan() {
				if changed, ok := e.Object.(*unstructured.Unstructured); ok {
					if name, err := assignment(changed); name != "" || err != nil {
						w.Stop()
						return name, err
					}
				}
			}
		} else if !retriable(err) {
			return "", b.clusterError(err)
		}
		if err := pause(ctx); err != nil {
			return "", err
		}
		found, err := b.customs(claims).Get(ctx, claim.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && found.GetUID() != claim.GetUID():
			return "", &Error{BadPod, claim.GetName(), "let nobody else delete claims", errors.New("the claim was deleted")}
		case err == nil:
			claim = found
		case !retriable(err):
			return "", b.clusterError(err)
		}
	}
}

// assignment returns the name of a claim's Sandbox, or why it will never have one.
func assignment(claim *unstructured.Unstructured) (string, error) {
	name, _, _ := unstructured.NestedString(claim.Object, "status", "sandbox", "name")
	all, _, _ := unstructured.NestedSlice(claim.Object, "status", "conditions")
	for _, one := range all {
		c, _ := one.(map[string]any)
		reason, _ := c["reason"].(string)
		if c["type"] == "Ready" && c["status"] == "False" && slices.Contains(hopeless, reason) {
			return "", &Error{NoWarmPool, claim.GetName(), "change the SandboxWarmPool, or its SandboxTemplate", fmt.Errorf("%s: %v", reason, c["message"])}
		}
	}
	return name, nil
}

// podOf returns the pod of the Sandbox that belongs to a claim, when it is there.
func (b *Backend) podOf(ctx context.Context, sandbox string, claim types.UID) (*corev1.Pod, error) {
	for {
		owner, err := b.customs(sandboxes).Get(ctx, sandbox, metav1.GetOptions{})
		if err == nil && metav1.GetControllerOf(owner) != nil && metav1.GetControllerOf(owner).UID == claim {
			name := owner.GetAnnotations()[podNameAnnotation]
			if name == "" {
				name = sandbox
			}
			var pod *corev1.Pod
			if pod, err = b.pods.Get(ctx, name, metav1.GetOptions{}); err == nil && metav1.IsControlledBy(pod, owner) {
				return pod, nil
			}
		}
		if err != nil && !apierrors.IsNotFound(err) && !retriable(err) {
			return nil, b.clusterError(err)
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// pause waits a little before the API server is asked again.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(minBackoff):
		return nil
	}
}

// created returns when the sandbox in a pod was created.
func created(pod *corev1.Pod) time.Time {
	if at, err := time.Parse(time.RFC3339, pod.Annotations[annotationClaimed]); err == nil {
		return at
	}
	return pod.CreationTimestamp.Time
}

// prolong puts off the end of claims until ctx ends.
func (b *Backend) prolong(ctx context.Context) {
	tick := time.NewTicker(max(b.opts.AbandonAfter/8, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, i := range b.sandboxes() {
				if i.claim != "" && time.Until(i.ends) < b.opts.AbandonAfter/2 {
					i.prolongOnce(ctx)
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

func (i *instance) prolongOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	pod, _ := i.present()
	var cfg backend.Config
	if json.Unmarshal([]byte(pod.Annotations[annotationConfig]), &cfg) != nil {
		return
	}
	ends := i.b.claimEnds(&cfg, created(pod))
	patch := fmt.Sprintf(`{"metadata":{"uid":%q},"spec":{"lifecycle":{"shutdownTime":%q}}}`, i.claimUID, ends.UTC().Format(time.RFC3339))
	if _, err := i.b.customs(claims).Patch(ctx, i.claim, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err == nil {
		i.ends = ends
	}
}

// deleteClaim deletes a claim, and returns when it and its pod are gone.
func (b *Backend) deleteClaim(ctx context.Context, name string, uid types.UID) error {
	foreground := metav1.DeletePropagationForeground
	get := func(ctx context.Context) (metav1.Object, error) {
		return b.customs(claims).Get(ctx, name, metav1.GetOptions{})
	}
	return deleteObject(ctx, uid, metav1.DeleteOptions{PropagationPolicy: &foreground}, get, func(ctx context.Context, opts metav1.DeleteOptions) error {
		return b.customs(claims).Delete(ctx, name, opts)
	})
}

// tidyClaims deletes the owner's claims that no pod was taken by for long.
func (b *Backend) tidyClaims(ctx context.Context, pods []corev1.Pod) error {
	if b.opts.WarmPool == "" {
		return nil
	}
	found, err := b.customs(claims).List(ctx, b.owned())
	if err != nil {
		return err
	}
	var errs []error
	for _, claim := range found.Items {
		taken := slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Annotations[annotationClaim] == string(claim.GetUID()) })
		if !taken && time.Since(claim.GetCreationTimestamp().Time) > oldClaim {
			errs = append(errs, b.deleteClaim(ctx, claim.GetName(), claim.GetUID()))
		}
	}
	return errors.Join(errs...)
}
