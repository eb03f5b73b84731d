package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent"
)

// The kinds of the agent-sandbox project, https://github.com/kubernetes-sigs/agent-sandbox.
var (
	extensions = schema.GroupVersion{Group: "extensions.agents.x-k8s.io", Version: "v1beta1"}
	warmPools  = extensions.WithResource("sandboxwarmpools")
	templates  = extensions.WithResource("sandboxtemplates")
	claims     = extensions.WithResource("sandboxclaims")
	sandboxes  = schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxes"}
)

// mendPool is what to do about a pool's pod that is not what it is to be.
const mendPool = "let the pool's SandboxTemplate have the pod that Options.PodTemplate returns, or change the Options or the Config"

// customs returns the objects of a kind in the namespace.
func (b *Backend) customs(kind schema.GroupVersionResource) dynamic.ResourceInterface {
	return b.custom.Resource(kind).Namespace(b.namespace)
}

// PodTemplate returns the pod of a sandbox with these options, for the spec.podTemplate of
// the SandboxTemplate that the pool of Options.WarmPool is made from. It changes with the
// options, and with the version of this library, whose agent it names by its hash.
// Sandboxes wait without an end for somebody to claim them; a claim has the end that
// Config.Lifetime and AbandonAfter say.
func (o *Options) PodTemplate() (*corev1.PodTemplateSpec, error) {
	b := &Backend{opts: o.resolve()}
	pod, err := b.poolPod(new(backend.Config))
	if err != nil {
		return nil, err
	}
	for _, m := range []map[string]string{pod.Labels, pod.Annotations} {
		maps.DeleteFunc(m, func(key, _ string) bool { return strings.HasPrefix(key, labelPrefix) })
	}
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations},
		Spec:       pod.Spec,
	}, nil
}

// poolPod returns the pod of cfg as a pool makes it, which does not know when the sandbox
// begins to live.
func (b *Backend) poolPod(cfg *backend.Config) (*corev1.Pod, error) {
	pod, err := b.pod(cfg)
	if err != nil {
		return nil, err
	}
	pod.Spec.ActiveDeadlineSeconds = nil
	containerOf(pod.Spec.Containers, ContainerName).Command = agent.InitCommand(agentPath, 0, 0)
	return pod, nil
}

// claimable returns the pod of cfg if it is the pool's.
func (b *Backend) claimable(cfg *backend.Config) (*corev1.Pod, error) {
	want, err := b.poolPod(cfg)
	if err != nil {
		return nil, err
	}
	if d := differs(&want.Spec, b.poolSpec); d != "" {
		return nil, fmt.Errorf("kubernetes: %w: a Config other than the pods of Options.WarmPool: %s", errors.ErrUnsupported, d)
	}
	return want, nil
}

// ownedBy returns the labels or annotations that are this package's.
func ownedBy(all map[string]string) map[string]string {
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(key, _ string) bool { return !strings.HasPrefix(key, labelPrefix) })
	return all
}

// checkPool sees whether the warm pool is there, and makes pods that are sandboxes.
func (b *Backend) checkPool(ctx context.Context) error {
	if b.opts.WarmPool == "" {
		return nil
	}
	pool, err := b.customs(warmPools).Get(ctx, b.opts.WarmPool, metav1.GetOptions{})
	if err != nil {
		return b.noPool("SandboxWarmPool "+b.opts.WarmPool, err)
	}
	name, _, _ := unstructured.NestedString(pool.Object, "spec", "sandboxTemplateRef", "name")
	template, err := b.customs(templates).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return b.noPool("SandboxTemplate "+name, err)
	}
	spec, _, _ := unstructured.NestedMap(template.Object, "spec", "podTemplate", "spec")
	var got corev1.PodSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &got); err != nil {
		return &Error{BadPod, "SandboxTemplate " + name, mendPool, err}
	}
	want, err := b.poolPod(new(backend.Config))
	if err != nil {
		return err
	}
	if d := differs(&want.Spec, &got); d != "" {
		return &Error{BadPod, "SandboxTemplate " + name, mendPool, errors.New(d)}
	}
	b.poolSpec = &want.Spec
	return nil
}

// noPool says what is missing where one of the pool's objects could not be read.
func (b *Backend) noPool(name string, err error) error {
	switch {
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return &Error{NoWarmPool, name, "install agent-sandbox with its extensions in the cluster, of a version that serves " + extensions.String() + ", or leave Options.WarmPool empty", err}
	case apierrors.IsNotFound(err):
		return &Error{NoWarmPool, name, "create it in the namespace " + b.namespace + ", or change Options.WarmPool or Options.Namespace", err}
	}
	return err
}
