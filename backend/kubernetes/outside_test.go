package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbox-go/sandbox"
)

// ownerAnnotation has the owner of what belongs to one.
const ownerAnnotation = "sandbox-go.github.io/owner"

// left returns the names of an owner's pods and leases.
func (c cluster) left(tb testing.TB, owner string) []string {
	tb.Helper()
	ctx := testContext(tb)
	pods, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	leases, err := c.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	var names []string
	for _, p := range pods.Items {
		if p.Annotations[ownerAnnotation] == owner {
			names = append(names, fmt.Sprintf("pod %s (%s)", p.Name, p.Status.Phase))
		}
	}
	for _, l := range leases.Items {
		if l.Annotations[ownerAnnotation] == owner {
			names = append(names, "lease "+l.Name)
		}
	}
	return names
}

// nothingLeft checks that an owner has nothing in the cluster.
func (c cluster) nothingLeft(tb testing.TB, owner string) {
	tb.Helper()
	if names := c.left(tb, owner); len(names) > 0 {
		tb.Errorf("left behind: %s", strings.Join(names, ", "))
	}
}

// eventually waits until ok holds.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for begin := time.Now(); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Since(begin) > 40*time.Second {
			tb.Fatalf("timed out waiting until %s", what)
		}
	}
}

// describe returns a record for a failure's text.
func describe(rec *sandbox.Execution) string {
	if rec == nil {
		return "no record"
	}
	code := "none"
	if rec.ExitCode != nil {
		code = fmt.Sprint(*rec.ExitCode)
	}
	return fmt.Sprintf("%s, code %s, signal %v, oom %v, err %v, stdout %q, stderr %q",
		rec.Status, code, rec.Signal, rec.OOMKilled, rec.Err, rec.Stdout, rec.Stderr)
}

// runPod makes a pod as kubectl run does, or one with an init container, and returns when
// the API server says that it runs.
func (c cluster) runPod(tb testing.TB, withInit bool) error {
	ctx, pods := context.Background(), c.CoreV1().Pods(c.namespace)
	no, yes, uid := false, true, int64(1000)
	plain := corev1.Container{
		Name: "plain", Image: testImage, Command: []string{"sleep", "600"},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, RunAsNonRoot: &yes, RunAsUser: &uid,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	spec := corev1.PodSpec{AutomountServiceAccountToken: &no, Containers: []corev1.Container{plain}}
	if withInit {
		plain.Name, plain.Command = "init", []string{"true"}
		spec.InitContainers = []corev1.Container{plain}
	}
	made, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "plain-"}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	now := int64(0)
	tb.Cleanup(func() { pods.Delete(ctx, made.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}) })
	w, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + made.Name})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if pod, ok := e.Object.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodRunning {
			return nil
		}
	}
	return errors.New("the watch has ended")
}
