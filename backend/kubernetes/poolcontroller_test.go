package kubernetes_test

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/sandbox-go/sandbox/backend/kubernetes"
)

// The kinds of testdata/agent-sandbox.yaml.
var (
	extensions = schema.GroupVersion{Group: "extensions.agents.x-k8s.io", Version: "v1beta1"}
	warmPools  = extensions.WithResource("sandboxwarmpools")
	templates  = extensions.WithResource("sandboxtemplates")
	claims     = extensions.WithResource("sandboxclaims")
	sandboxes  = schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxes"}
)

// A pool is a SandboxWarmPool, and a controller for it that does what agent-sandbox's
// does: it keeps Sandboxes ready, each with a pod of its name, gives them to claims,
// and deletes claims whose time has come. The cluster's garbage collector does the rest.
type pool struct {
	tb      testing.TB
	cluster cluster
	custom  dynamic.Interface
	name    string

	template *corev1.PodTemplateSpec // as the options make it
}

// newPool returns a pool of so many ready pods, as opts make them, which is deleted in the
// end.
func newPool(tb testing.TB, replicas int64, opts kubernetes.Options) *pool {
	tb.Helper()
	p := bareController(tb)
	template, err := testOptions(tb, opts).PodTemplate()
	if err != nil {
		tb.Fatal(err)
	}
	p.template = template
	podTemplate, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
	if err != nil {
		tb.Fatal(err)
	}
	p.create(templates, "SandboxTemplate", p.name, map[string]any{"podTemplate": podTemplate})
	p.create(warmPools, "SandboxWarmPool", p.name, map[string]any{
		"replicas": replicas, "sandboxTemplateRef": map[string]any{"name": p.name},
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.run(ctx) })
	tb.Cleanup(func() {
		foreground := metav1.DeletePropagationForeground
		p.of(warmPools).Delete(context.Background(), p.name, metav1.DeleteOptions{PropagationPolicy: &foreground})
		p.of(templates).Delete(context.Background(), p.name, metav1.DeleteOptions{})
		eventually(tb, "the pool is gone", func() bool {
			_, err := p.of(warmPools).Get(context.Background(), p.name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
		stop()
		running.Wait()
	})
	eventually(tb, "the pool is ready", func() bool {
		ready := 0
		for _, f := range p.free(context.Background()) {
			ready += f.readiness()
		}
		return ready == int(replicas)
	})
	return p
}

// bareController returns a pool that is not there yet, in a cluster that has the kinds.
func bareController(tb testing.TB) *pool {
	tb.Helper()
	c := testCluster(tb)
	custom, err := dynamic.NewForConfig(c.config)
	if err != nil {
		tb.Fatal(err)
	}
	text, err := os.ReadFile("testdata/agent-sandbox.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	kinds := custom.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
		kind := new(unstructured.Unstructured)
		if err := yaml.Unmarshal(doc, &kind.Object); err != nil {
			tb.Fatal(err)
		}
		if _, err := kinds.Create(testContext(tb), kind, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			tb.Fatal(err)
		}
	}
	p := &pool{tb: tb, cluster: c, custom: custom}
	p.name = "pool-" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(tb.Name())) + started.Format("-150405")
	for _, kind := range []schema.GroupVersionResource{claims, sandboxes, warmPools, templates} {
		eventually(tb, "the API server has the kinds", func() bool {
			_, err := p.of(kind).List(testContext(tb), metav1.ListOptions{})
			return err == nil
		})
	}
	return p
}

func (p *pool) of(kind schema.GroupVersionResource) dynamic.ResourceInterface {
	return p.custom.Resource(kind).Namespace(p.cluster.namespace)
}

func (p *pool) create(kind schema.GroupVersionResource, name, of string, spec map[string]any) {
	p.tb.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": name, "metadata": map[string]any{"name": of}, "spec": spec,
	}}
	if _, err := p.of(kind).Create(testContext(p.tb), object, metav1.CreateOptions{}); err != nil {
		p.tb.Fatal(err)
	}
}

// run serves claims when they change, and fills the pool now and then, until ctx ends.
func (p *pool) run(ctx context.Context) {
	for ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		if w, err := p.of(claims).Watch(bounded, metav1.ListOptions{}); err == nil {
			for e := range w.ResultChan() { // at first all that there are
				claim, isClaim := e.Object.(*unstructured.Unstructured)
				if !isClaim {
					continue
				}
				if name, _, _ := unstructured.NestedString(claim.Object, "spec", "warmPoolRef", "name"); name == p.name {
					p.serve(ctx, claim)
				}
			}
		}
		cancel()
		p.fill(ctx)
	}
}

// fill makes what Sandboxes and pods there are to be. What it could not do it does the
// next time.
func (p *pool) fill(ctx context.Context) {
	parent, err := p.of(warmPools).Get(ctx, p.name, metav1.GetOptions{})
	if err != nil {
		return
	}
	replicas, _, _ := unstructured.NestedInt64(parent.Object, "spec", "replicas")
	all, err := p.of(sandboxes).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for n := range all.Items {
		sandbox := &all.Items[n]
		if sandbox.GetLabels()["test.pool"] == p.name && sandbox.GetDeletionTimestamp() == nil {
			p.createPod(ctx, sandbox)
			if metav1.IsControlledBy(sandbox, parent) {
				replicas--
			}
		}
	}
	template, err := p.of(templates).Get(ctx, p.name, metav1.GetOptions{})
	if err != nil || parent.GetDeletionTimestamp() != nil {
		return
	}
	blueprint, _, _ := unstructured.NestedMap(template.Object, "spec")
	for ; replicas > 0; replicas-- {
		p.of(sandboxes).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": sandboxes.GroupVersion().String(), "kind": "Sandbox",
			"metadata": map[string]any{"generateName": p.name + "-", "labels": map[string]any{"test.pool": p.name}, "ownerReferences": []any{ownedBy(parent)}},
			"spec":     blueprint,
		}}, metav1.CreateOptions{})
	}
}

// ownedBy returns the reference of a controller that is deleted after what it owns.
func ownedBy(owner *unstructured.Unstructured) map[string]any {
	return map[string]any{
		"apiVersion": owner.GetAPIVersion(), "kind": owner.GetKind(), "name": owner.GetName(), "uid": string(owner.GetUID()),
		"controller": true, "blockOwnerDeletion": true,
	}
}

func (p *pool) createPod(ctx context.Context, sandbox *unstructured.Unstructured) {
	if _, err := p.cluster.CoreV1().Pods(p.cluster.namespace).Get(ctx, sandbox.GetName(), metav1.GetOptions{}); err == nil {
		return
	}
	var template corev1.PodTemplateSpec
	from, _, _ := unstructured.NestedMap(sandbox.Object, "spec", "podTemplate")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from, &template); err != nil {
		p.tb.Error(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: sandbox.GetName(), Labels: maps.Clone(template.Labels)}, Spec: template.Spec}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(sandbox, sandbox.GroupVersionKind())}
	p.cluster.CoreV1().Pods(p.cluster.namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// A free is a Sandbox that may be claimed, and its pod.
type free struct {
	sandbox *unstructured.Unstructured
	pod     *corev1.Pod
}

// free returns what may be claimed, and what runs first.
func (p *pool) free(ctx context.Context) []free {
	all, err := p.of(sandboxes).List(ctx, metav1.ListOptions{LabelSelector: "test.pool=" + p.name})
	if err != nil {
		return nil
	}
	var list []free
	for n := range all.Items {
		sandbox := &all.Items[n]
		owner := metav1.GetControllerOf(sandbox)
		if owner == nil || owner.Kind != "SandboxWarmPool" || sandbox.GetDeletionTimestamp() != nil {
			continue
		}
		if pod, err := p.cluster.CoreV1().Pods(p.cluster.namespace).Get(ctx, sandbox.GetName(), metav1.GetOptions{}); err == nil {
			list = append(list, free{sandbox, pod})
		}
	}
	slices.SortStableFunc(list, func(a, b free) int { return cmp.Compare(b.readiness(), a.readiness()) })
	return list
}

// readiness returns 1 when the pod runs, or waits for the agent to be sent to it, and else 0.
func (f free) readiness() int {
	waits := slices.ContainsFunc(f.pod.Status.InitContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
	if f.pod.Status.Phase == corev1.PodRunning || waits {
		return 1
	}
	return 0
}

// serve gives a claim a Sandbox, or deletes it when its time has come.
func (p *pool) serve(ctx context.Context, claim *unstructured.Unstructured) {
	if claim.GetDeletionTimestamp() != nil {
		return
	}
	ends, _, _ := unstructured.NestedString(claim.Object, "spec", "lifecycle", "shutdownTime")
	if at, err := time.Parse(time.RFC3339, ends); err == nil && time.Now().After(at) {
		p.of(claims).Delete(ctx, claim.GetName(), metav1.DeleteOptions{})
		return
	}
	if name, _, _ := unstructured.NestedString(claim.Object, "status", "sandbox", "name"); name != "" {
		return
	}
	ready := map[string]any{"type": "Ready", "status": "False", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
	status := map[string]any{"conditions": []any{ready}}
	if _, err := p.of(warmPools).Get(ctx, p.name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		ready["reason"], ready["message"] = "WarmPoolNotFound", "SandboxWarmPool not found"
	} else if free := p.free(ctx); len(free) > 0 {
		adopted := free[0].sandbox
		adopted.SetOwnerReferences(nil)
		unstructured.SetNestedSlice(adopted.Object, []any{ownedBy(claim)}, "metadata", "ownerReferences")
		adopted.SetAnnotations(map[string]string{"agents.x-k8s.io/pod-name": adopted.GetName()})
		if _, err := p.of(sandboxes).Update(ctx, adopted, metav1.UpdateOptions{}); err != nil {
			return
		}
		status["sandbox"] = map[string]any{"name": adopted.GetName()}
		ready["status"], ready["reason"], ready["message"] = "True", "DependenciesReady", "adopted"
	} else {
		return
	}
	claim.Object["status"] = status
	if _, err := p.of(claims).UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
		p.tb.Errorf("the claim's status: %v", err)
	}
}

// left returns the claims that carry an owner.
func (p *pool) left(owner string) []string {
	p.tb.Helper()
	found, err := p.of(claims).List(testContext(p.tb), metav1.ListOptions{})
	if err != nil {
		p.tb.Fatal(err)
	}
	var names []string
	for _, claim := range found.Items {
		if claim.GetAnnotations()[ownerAnnotation] == owner {
			names = append(names, claim.GetName())
		}
	}
	return names
}

// nothingLeft checks that an owner has no claim, and that the pool owns all its Sandboxes.
func (p *pool) nothingLeft(owner string) {
	p.tb.Helper()
	if names := p.left(owner); len(names) > 0 {
		p.tb.Errorf("claims left behind: %v", names)
	}
	all, err := p.of(sandboxes).List(testContext(p.tb), metav1.ListOptions{LabelSelector: "test.pool=" + p.name})
	if err != nil {
		p.tb.Fatal(err)
	}
	for n := range all.Items {
		if owner := metav1.GetControllerOf(&all.Items[n]); owner == nil || owner.Kind != "SandboxWarmPool" {
			p.tb.Errorf("left behind: Sandbox %s of %v", all.Items[n].GetName(), owner)
		}
	}
}
