package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/kubernetes"
)

// awayTime is how long the API server is away.
const awayTime = 30 * time.Second

// While the API server hangs a command goes on, and its true end is told.
func TestAPIServerHangs(t *testing.T) {
	c := testCluster(t)
	pid := c.program(t, "kube-apiserver")
	sb := newSandbox(t, newBackend(t, kubernetes.Options{}), nil)
	e := follow(t, sb, "sleep 5; echo over; exit 3")
	syscall.Kill(pid, syscall.SIGSTOP)
	time.Sleep(awayTime)
	syscall.Kill(pid, syscall.SIGCONT)
	if rec, err := e.Wait(testContext(t)); err != nil || rec.Stdout.String() != "begun\nover\n" || rec.ExitCode == nil || *rec.ExitCode != 3 {
		t.Errorf("%v, %s", err, describe(rec))
	}
	output(t, sb, "true")
}

// What ran when the API server went away, or the kubelet, has failed with no exit code, and
// is killed. One that is started meanwhile fails soon, and the sandbox is not gone: when they are back a
// command runs in it.
func TestInterrupted(t *testing.T) {
	for program, problem := range map[string]kubernetes.Problem{"kube-apiserver": kubernetes.NoCluster, "kubelet": kubernetes.NoNode} {
		t.Run(program, func(t *testing.T) {
			c := testCluster(t)
			c.program(t, program)
			sb := newSandbox(t, newBackend(t, kubernetes.Options{}), nil)
			e := follow(t, sb, "while printf x >>beat; do sleep 0.05; done")
			back := c.takeAway(t, program)
			went := time.Now()
			lost(t, e)
			if took := time.Since(went); took > 10*time.Second {
				t.Errorf("the command ended %v after", took)
			}
			begin := time.Now()
			rec := run(t, sb, sandbox.Command{Shell: "echo no"})
			if rec.Status != sandbox.Failed || !errors.Is(rec.Err, problem) || errors.Is(rec.Err, sandbox.ErrGone) {
				t.Errorf("a command meanwhile: %s", describe(rec))
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("a command meanwhile took %v", took)
			}
			time.Sleep(time.Until(went.Add(awayTime)))
			back()
			eventually(t, "a command runs again", func() bool {
				rec, err := sb.Run(testContext(t), sandbox.Command{Shell: "echo on"})
				return err == nil && rec.Stdout.String() == "on\n"
			})
			size := output(t, sb, "wc -c <beat")
			if later := output(t, sb, "sleep 1; wc -c <beat"); later != size {
				t.Errorf("what was lost goes on: %q, then %q", size, later)
			}
		})
	}
}

// A node that does not come back ends what ran there, and the sandbox when the cluster gives
// its pod up, by deleting it. Until the node is back Close says that the pod is not gone.
func TestNodeGone(t *testing.T) {
	c := testCluster(t)
	c.program(t, "kubelet")
	b := newBackend(t, kubernetes.Options{})
	sb := newSandbox(t, b, nil)
	e := follow(t, sb, "sleep 100")
	back := c.takeAway(t, "kubelet")
	lost(t, e)
	// Of a cluster's only node the cluster gives nothing up by itself.
	if err := c.CoreV1().Pods(c.namespace).Delete(testContext(t), c.podOf(t, sb.ID()), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-sb.Gone():
	case <-time.After(10 * time.Second):
		t.Error("the sandbox is not gone")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := sb.Close(ctx); err == nil {
		t.Error("a pod is said to be gone that nobody can end")
	}
	back()
	eventually(t, "the node is ready", func() bool {
		node, err := c.CoreV1().Nodes().Get(testContext(t), "node", metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	})
	closeIn(t, sb.Close)
	closeIn(t, b.Close)
	c.nothingLeft(t, ownerOf(t))
}

// The stream of a pod that is removed while its kubelet hangs stays open, and brings nothing.
// What ran there ends all the same, and soon.
func TestRemovedUnderOpenStream(t *testing.T) {
	c := testCluster(t)
	pid := c.program(t, "kubelet")
	sb := newSandbox(t, newBackend(t, kubernetes.Options{}), nil)
	e := follow(t, sb, "sleep 100")
	goOn := sync.OnceFunc(func() { syscall.Kill(pid, syscall.SIGCONT) })
	defer goOn()
	syscall.Kill(pid, syscall.SIGSTOP)
	begin := time.Now()
	c.remove(t, c.podOf(t, sb.ID()))
	lost(t, e)
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// An agent that does not answer any more, though its stream is open, is given up within the
// time that its pings have: what it ran has failed, and another one is started in its place.
func TestSilentAgent(t *testing.T) {
	t.Parallel()
	c := testCluster(t)
	b := newBackend(t, kubernetes.Options{})
	b.SetPings(time.Second, 5*time.Second)
	sb := newSandbox(t, b, nil)
	e := follow(t, sb, "while printf x >>beat; do sleep 0.05; done")
	for _, pid := range c.processes(t, c.podOf(t, sb.ID())) {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(line), "\x00serve\x00") {
			syscall.Kill(pid, syscall.SIGSTOP)
		}
	}
	lost(t, e)
	size := output(t, sb, "wc -c <beat")
	if later := output(t, sb, "sleep 1; wc -c <beat"); later != size {
		t.Errorf("what was lost goes on: %q, then %q", size, later)
	}
}

// takeAway kills one of the cluster's programs, and keeps it away until back is called, or
// the end of the test.
func (c cluster) takeAway(tb testing.TB, name string) (back func()) {
	tb.Helper()
	path := filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), "bin", name)
	if err := os.Rename(path, path+".away"); err != nil {
		tb.Fatal(err)
	}
	back = sync.OnceFunc(func() {
		if err := os.Rename(path+".away", path); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(back)
	syscall.Kill(c.program(tb, name), syscall.SIGKILL)
	return back
}

// program returns the process of one of the cluster's programs. It skips the test where
// the cluster is not on this machine.
func (c cluster) program(tb testing.TB, name string) int {
	tb.Helper()
	path := filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), "bin", name)
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		if line, _ := os.ReadFile(file); strings.HasPrefix(string(line), path+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				tb.Fatal(err)
			}
			return pid
		}
	}
	tb.Skipf("%s does not run on this machine", path)
	return 0
}
