package kubernetes_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/kubernetes"
)

// follow starts a command that prints "begun", and returns when it has.
func follow(tb testing.TB, sb sandbox.Sandbox, text string) sandbox.Exec {
	tb.Helper()
	ctx := testContext(tb)
	e, stream, err := sb.Follow(ctx, sandbox.Command{Shell: "echo begun; " + text, Timeout: testTime})
	if err != nil {
		tb.Fatal(err)
	}
	defer stream.Close()
	if _, err := stream.Next(ctx); err != nil {
		tb.Fatal(err)
	}
	return e
}

// lost checks that a command ended as one whose outcome is unknown.
func lost(tb testing.TB, e sandbox.Exec) {
	tb.Helper()
	rec, err := e.Wait(testContext(tb))
	if err != nil {
		tb.Fatal(err)
	}
	if rec.Status != sandbox.Failed || rec.ExitCode != nil || rec.Signal != 0 || !errors.Is(rec.Err, sandbox.ErrLost) || rec.Stdout.String() != "begun\n" {
		tb.Errorf("the record: %s", describe(rec))
	}
}

// A pod that ends under a running command ends it as failed, with no exit code, and the
// sandbox is gone.
func TestDeath(t *testing.T) {
	for _, test := range []struct {
		name string
		why  string // what the record's error says
		cfg  *backend.Config
		do   func(t *testing.T, c cluster, pod string, sb sandbox.Sandbox) error
	}{
		{name: "deleted", why: "deleted", do: func(t *testing.T, c cluster, pod string, _ sandbox.Sandbox) error {
			return c.CoreV1().Pods(c.namespace).Delete(testContext(t), pod, metav1.DeleteOptions{})
		}},
		{name: "deleted-at-once", why: "deleted", do: func(t *testing.T, c cluster, pod string, _ sandbox.Sandbox) error {
			now := int64(0)
			return c.CoreV1().Pods(c.namespace).Delete(testContext(t), pod, metav1.DeleteOptions{GracePeriodSeconds: &now})
		}},
		{name: "evicted", why: "deleted", do: func(t *testing.T, c cluster, pod string, _ sandbox.Sandbox) error {
			return c.CoreV1().Pods(c.namespace).EvictV1(testContext(t), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod}})
		}},
		{name: "ended-on-the-node", why: "ended", do: func(t *testing.T, c cluster, pod string, _ sandbox.Sandbox) error {
			return syscall.Kill(c.processes(t, pod)["1"], syscall.SIGTERM)
		}},
		{name: "killed-on-the-node", why: "was killed", do: func(t *testing.T, c cluster, pod string, _ sandbox.Sandbox) error {
			return syscall.Kill(c.processes(t, pod)["1"], syscall.SIGKILL)
		}},
		{name: "killed-for-memory", why: "was killed by the kernel for memory", cfg: &backend.Config{Limits: backend.Limits{Memory: 64 << 20}},
			do: func(t *testing.T, c cluster, pod string, sb sandbox.Sandbox) error {
				follow(t, sb, "until [ -e go ]; do sleep 0.1; done; tail /dev/zero")
				// The kernel is to choose the first process, and not the one that is greedy.
				for number, pid := range c.processes(t, pod) {
					score := "0"
					if number == "1" {
						score = "1000"
					}
					if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(score), 0); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, os.ErrNotExist) {
						return err
					}
				}
				_, err := sb.Run(testContext(t), sandbox.Command{Shell: "touch go"})
				return err
			}},
		{name: "past-its-deadline", why: "DeadlineExceeded", cfg: &backend.Config{Lifetime: 25 * time.Second},
			do: func(*testing.T, cluster, string, sandbox.Sandbox) error { return nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, ctx := testCluster(t), testContext(t)
			b := newBackend(t, kubernetes.Options{})
			sb := newSandbox(t, b, test.cfg)
			e := follow(t, sb, "trap '' TERM; sleep 80")
			begin, pod := time.Now(), c.podOf(t, sb.ID())
			if err := test.do(t, c, pod, sb); err != nil {
				t.Fatal(err)
			}
			lost(t, e)
			// A record waits five seconds for the cluster to tell the cause: a slow kubelet
			// takes longer.
			if err := e.Execution().Err; err == nil || !strings.Contains(err.Error(), test.why) && c.tellsEnd(t, pod) {
				t.Errorf("the record's error is %v, which does not say %q", err, test.why)
			}
			if took := time.Since(begin); took > 40*time.Second {
				t.Errorf("it took %v", took)
			}
			select {
			case <-sb.Gone():
			case <-ctx.Done():
				t.Error("the sandbox is not gone")
			}
			if _, err := sb.Start(ctx, sandbox.Command{Shell: "true"}); !errors.Is(err, sandbox.ErrGone) {
				t.Errorf("a start then: %v", err)
			}
			closeIn(t, sb.Close)
			closeIn(t, b.Close)
			c.nothingLeft(t, ownerOf(t))
		})
	}
}

// tellsEnd reports whether the API server knows that a pod has ended, or is to.
func (c cluster) tellsEnd(tb testing.TB, pod string) bool {
	tb.Helper()
	found, err := c.CoreV1().Pods(c.namespace).Get(testContext(tb), pod, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		tb.Fatal(err)
	}
	return err != nil || found.DeletionTimestamp != nil || found.Status.Phase != corev1.PodRunning
}

// processes returns the numbers here of a sandbox's processes, by those that they have
// inside. It skips the test where the cluster is not on this machine.
func (c cluster) processes(tb testing.TB, pod string) map[string]int {
	tb.Helper()
	if !c.isLocal() {
		tb.Skip("the cluster's nodes are not on this machine")
	}
	id := ""
	eventually(tb, "the cluster tells the container's id", func() bool {
		found, err := c.CoreV1().Pods(c.namespace).Get(testContext(tb), pod, metav1.GetOptions{})
		if err != nil {
			tb.Fatal(err)
		}
		if all := found.Status.ContainerStatuses; len(all) == 1 {
			_, id, _ = strings.Cut(all[0].ContainerID, "containerd://")
		}
		return id != ""
	})
	all, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	inside := make(map[string]int)
	for _, file := range all {
		groups, _ := os.ReadFile(file)
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "status"))
		if number := innermost.FindSubmatch(status); number != nil && strings.Contains(string(groups), id) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				tb.Fatal(err)
			}
			inside[string(number[1])] = pid
		}
	}
	if inside["1"] == 0 {
		tb.Fatalf("the first process of container %s in pod %s is not seen", id, pod)
	}
	return inside
}

// innermost finds a process's number in its own pid namespace in its status.
var innermost = regexp.MustCompile(`(?m)^NSpid:.*\t(\d+)$`)
