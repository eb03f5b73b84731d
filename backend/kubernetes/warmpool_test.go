package kubernetes_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/kubernetes"
)

// A sandbox of a warm pool is a pod that was there before, with the same commands,
// endings and lifetime as another; and closing it leaves nothing.
func TestWarmPool(t *testing.T) {
	t.Parallel()
	p := newPool(t, 1, kubernetes.Options{})
	before := p.free(testContext(t))
	b := newBackend(t, kubernetes.Options{WarmPool: p.name})
	sb := newSandbox(t, b, &backend.Config{Lifetime: time.Hour, Env: map[string]string{"A": "b"}})
	if got := output(t, sb, "pwd; echo $A; id -u"); got != "/workspace\nb\n1000\n" {
		t.Errorf("output %q", got)
	}
	name := p.cluster.podOf(t, sb.ID())
	pod, err := p.cluster.CoreV1().Pods(p.cluster.namespace).Get(testContext(t), name, metav1.GetOptions{})
	if err != nil || len(before) != 1 || before[0].pod.UID != pod.UID {
		t.Errorf("the pod %s was not of the pool: %v", name, err)
	}
	claim, err := p.of(claims).Get(testContext(t), "sandbox-"+strings.ReplaceAll(sb.ID(), "_", "-"), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := unstructured.NestedString(claim.Object, "spec", "lifecycle", "shutdownTime")
	if ends, err := time.Parse(time.RFC3339, text); err != nil || time.Until(ends) > time.Hour+2*time.Second || time.Until(ends) < 58*time.Minute {
		t.Errorf("the claim ends at %q", text)
	}
	e := follow(t, sb, "sleep 60")
	p.cluster.remove(t, name)
	lost(t, e)
	closeIn(t, sb.Close)
	closeIn(t, b.Close)
	p.cluster.nothingLeft(t, ownerOf(t))
	p.nothingLeft(ownerOf(t))
}

// What a pool does not hand out as this package would have made it is refused, by New
// where the template says so, and else by Create, which leaves nothing.
func TestWarmPoolDiffers(t *testing.T) {
	t.Parallel()
	p := newPool(t, 1, kubernetes.Options{})
	opts := kubernetes.Options{WarmPool: p.name}
	other := func(change func(*kubernetes.Options)) kubernetes.Options {
		o := opts
		change(&o)
		return o
	}
	for _, test := range []struct {
		field string
		opts  kubernetes.Options
	}{
		{"containers[sandbox].image", other(func(o *kubernetes.Options) { o.Image = "other" })},
		{"initContainers[agent].image", other(func(o *kubernetes.Options) { o.AgentImage = "other" })},
		{"containers[sandbox].securityContext", other(func(o *kubernetes.Options) { o.PodSecurity = kubernetes.Baseline })},
		{"containers[sandbox].securityContext", other(func(o *kubernetes.Options) { o.ReadOnly = true })},
		{"containers[sandbox].resources", other(func(o *kubernetes.Options) { o.Limits.CPUs = 0.5 })},
		{"runtimeClassName", other(func(o *kubernetes.Options) { o.RuntimeClass = "gvisor" })},
		{"volumes", other(func(o *kubernetes.Options) { o.TmpSize = 1 << 20 })},
	} {
		_, err := kubernetes.New(testContext(t), testOptions(t, test.opts))
		if !errors.Is(err, kubernetes.BadPod) || !strings.Contains(err.Error(), test.field+" is ") || !strings.Contains(err.Error(), "Options.PodTemplate") {
			t.Errorf("another %s: %v", test.field, err)
		}
	}

	b := newBackend(t, opts)
	for name, cfg := range map[string]backend.Config{
		"image": {Image: "other"}, "user": {User: "1001"}, "limits": {Limits: backend.Limits{Memory: 1 << 29}},
	} {
		if _, err := sandbox.New(testContext(t), b, &sandbox.Options{Config: cfg}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("another %s in Config: %v", name, err)
		}
	}

	yes := true
	for _, test := range []struct {
		field  string
		mutate func(*corev1.PodSpec)
	}{
		{"hostNetwork", func(s *corev1.PodSpec) { s.HostNetwork = true }},
		{"hostPID", func(s *corev1.PodSpec) { s.HostPID = true }},
		{"shareProcessNamespace", func(s *corev1.PodSpec) { s.ShareProcessNamespace = &yes }},
		{"automountServiceAccountToken", func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = nil }},
		{"securityContext", func(s *corev1.PodSpec) { s.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "a", Value: "b"}} }},
		{"the names of containers", func(s *corev1.PodSpec) { s.Containers = append(s.Containers, sidecar(s)) }},
		{"the names of initContainers", func(s *corev1.PodSpec) { s.InitContainers = nil }},
		{"the names of volumes", func(s *corev1.PodSpec) { s.Volumes = append(s.Volumes, corev1.Volume{Name: "node"}) }},
		{"initContainers[agent].command", func(s *corev1.PodSpec) { s.InitContainers[0].Command = []string{"true"} }},
		{"containers[sandbox].command", func(s *corev1.PodSpec) { s.Containers[0].Command = []string{"sleep", "600"} }},
		{"containers[sandbox].securityContext", func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.Privileged = &yes }},
		{"containers[sandbox].the paths of volumeMounts", func(s *corev1.PodSpec) { s.Containers[0].VolumeMounts = s.Containers[0].VolumeMounts[1:] }},
		{"containers[sandbox].volumeMounts", func(s *corev1.PodSpec) { s.Containers[0].VolumeMounts[0].ReadOnly = false }},
		{"restartPolicy", func(s *corev1.PodSpec) { s.RestartPolicy = corev1.RestartPolicyAlways }},
	} {
		p.change(test.mutate)
		_, err := kubernetes.New(testContext(t), testOptions(t, opts))
		if !errors.Is(err, kubernetes.BadPod) || !strings.Contains(err.Error(), "("+test.field+" is ") {
			t.Errorf("another %s: %v", test.field, err)
		}
	}

	// The pod is of a template that has changed since.
	p.remake()
	if _, err := sandbox.New(testContext(t), b, nil); !errors.Is(err, kubernetes.BadPod) || !strings.Contains(err.Error(), "containers[sandbox].args is ") {
		t.Errorf("another pod: %v", err)
	}
	closeIn(t, b.Close)
	p.cluster.nothingLeft(t, ownerOf(t))
	p.nothingLeft(ownerOf(t))
}

func sidecar(s *corev1.PodSpec) corev1.Container {
	c := *s.Containers[0].DeepCopy()
	c.Name, c.Command = "sidecar", []string{"sleep", "600"}
	return c
}

// change has the pool's template be what it was first, and is changed so.
func (p *pool) change(mutate func(*corev1.PodSpec)) {
	p.tb.Helper()
	changed := p.template.DeepCopy()
	mutate(&changed.Spec)
	podTemplate, err := runtime.DefaultUnstructuredConverter.ToUnstructured(changed)
	if err != nil {
		p.tb.Fatal(err)
	}
	object, err := p.of(templates).Get(testContext(p.tb), p.name, metav1.GetOptions{})
	if err != nil {
		p.tb.Fatal(err)
	}
	object.Object["spec"] = map[string]any{"podTemplate": podTemplate}
	if _, err := p.of(templates).Update(testContext(p.tb), object, metav1.UpdateOptions{}); err != nil {
		p.tb.Fatal(err)
	}
}

// remake has the pool be of Sandboxes whose container has another argument.
func (p *pool) remake() {
	p.tb.Helper()
	p.change(func(s *corev1.PodSpec) { s.Containers[0].Args = []string{"other"} })
	eventually(p.tb, "the pool is made again", func() bool {
		isMade := false
		for _, f := range p.free(testContext(p.tb)) {
			if len(f.pod.Spec.Containers[0].Args) > 0 {
				isMade = true
			} else {
				p.of(sandboxes).Delete(testContext(p.tb), f.sandbox.GetName(), metav1.DeleteOptions{})
			}
		}
		return isMade
	})
}

// A pool that is not there, or whose kinds are not, is told by New.
func TestNoWarmPool(t *testing.T) {
	for name, status := range map[string]metav1.Status{
		"install agent-sandbox": {},
		"create it":             {Details: &metav1.StatusDetails{Name: "p", Kind: "sandboxwarmpools"}},
	} {
		status.Status, status.Code, status.Reason = "Failure", 404, metav1.StatusReasonNotFound
		s := newRefusingServer(t, status)
		_, err := kubernetes.New(t.Context(), s.options(kubernetes.Options{WarmPool: "p"}))
		if !errors.Is(err, kubernetes.NoWarmPool) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Another replica takes over what a service that was killed had of the pool, with its
// claim.
func TestWarmPoolTakeOver(t *testing.T) {
	t.Parallel()
	ctx, owner := testContext(t), ownerOf(t)
	p := newPool(t, 1, kubernetes.Options{})
	id, service := startService(t, owner, poolVar+"="+p.name)
	service.Kill()
	b := newBackend(t, kubernetes.Options{Owner: owner, WarmPool: p.name})
	opened, err := b.Recover(ctx)
	if err != nil || len(opened) != 1 || opened[0].Config.ID != id {
		t.Fatalf("recovered %v, %v", opened, err)
	}
	if age := time.Since(opened[0].CreatedAt); age < 0 || age > time.Minute {
		t.Errorf("created at %v", opened[0].CreatedAt)
	}
	if out := start(t, opened[0].Instance, "cat file"); out != "kept\n" {
		t.Errorf("output %q", out)
	}
	closeIn(t, b.Close)
	p.nothingLeft(owner)
}

// A claim ends when no service has come back for long enough, and not while there is one.
func TestWarmPoolAbandoned(t *testing.T) {
	t.Parallel()
	p := newPool(t, 1, kubernetes.Options{})
	owner := ownerOf(t)
	_, service := startService(t, owner, poolVar+"="+p.name, abandonVar+"=6s")
	time.Sleep(9 * time.Second)
	if len(p.left(owner)) != 1 {
		t.Error("under its service the claim has ended")
	}
	service.Kill()
	eventually(t, "the claim has ended", func() bool { return len(p.left(owner)) == 0 })
}
