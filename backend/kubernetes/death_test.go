package kubernetes_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
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
		do   func(ctx context.Context, c cluster, pod string, sb sandbox.Sandbox) error
	}{
		{name: "deleted", why: "pod sandbox-sbx-", do: func(ctx context.Context, c cluster, pod string, _ sandbox.Sandbox) error {
			return c.CoreV1().Pods(c.namespace).Delete(ctx, pod, metav1.DeleteOptions{})
		}},
		{name: "deleted-at-once", why: "pod sandbox-sbx-", do: func(ctx context.Context, c cluster, pod string, _ sandbox.Sandbox) error {
			now := int64(0)
			return c.CoreV1().Pods(c.namespace).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: &now})
		}},
		{name: "evicted", why: "pod sandbox-sbx-", do: func(ctx context.Context, c cluster, pod string, _ sandbox.Sandbox) error {
			return c.CoreV1().Pods(c.namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod}})
		}},
		{name: "ended-by-a-command", why: "pod sandbox-sbx-", do: func(ctx context.Context, _ cluster, _ string, sb sandbox.Sandbox) error {
			_, err := sb.Run(ctx, sandbox.Command{Shell: "kill -TERM 1; sleep 60"})
			return err
		}},
		{name: "past-its-deadline", why: "pod sandbox-sbx-", cfg: &backend.Config{Lifetime: 25 * time.Second},
			do: func(context.Context, cluster, string, sandbox.Sandbox) error { return nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, ctx := testCluster(t), testContext(t)
			b := newBackend(t, kubernetes.Options{})
			sb := newSandbox(t, b, test.cfg)
			e := follow(t, sb, "trap '' TERM; sleep 80")
			begin := time.Now()
			if err := test.do(ctx, c, c.podOf(t, sb.ID()), sb); err != nil {
				t.Fatal(err)
			}
			lost(t, e)
			if err := e.Execution().Err; err == nil || !strings.Contains(err.Error(), test.why) {
				t.Logf("the record says: %v", err)
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

// What a node or the API server does to a connection ends what runs as lost, or not at
// all, and the next command works.
func TestInterrupted(t *testing.T) {
	for _, test := range []struct {
		name     string
		program  string
		survives bool // the running command goes on
		do       func(t *testing.T, pid int)
	}{
		{"the-API-server-is-killed", "kube-apiserver", false, func(t *testing.T, pid int) { syscall.Kill(pid, syscall.SIGKILL) }},
		{"the-API-server-hangs", "kube-apiserver", true, func(t *testing.T, pid int) {
			syscall.Kill(pid, syscall.SIGSTOP)
			time.Sleep(3 * time.Second)
			syscall.Kill(pid, syscall.SIGCONT)
		}},
		{"the-kubelet-is-killed", "kubelet", false, func(t *testing.T, pid int) { syscall.Kill(pid, syscall.SIGKILL) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := testCluster(t)
			pid := c.program(t, test.program)
			sb := newSandbox(t, newBackend(t, kubernetes.Options{}), nil)
			text := "sleep 60"
			if test.survives {
				text = "sleep 6; echo over"
			}
			e := follow(t, sb, text)
			test.do(t, pid)
			if test.survives {
				if rec, err := e.Wait(testContext(t)); err != nil || rec.Stdout.String() != "begun\nover\n" {
					t.Errorf("%v, %s", err, describe(rec))
				}
			} else {
				lost(t, e)
			}
			eventually(t, "a command runs again", func() bool {
				rec, err := sb.Run(testContext(t), sandbox.Command{Shell: "echo on"})
				return err == nil && rec.Stdout.String() == "on\n"
			})
			if got := output(t, sb, "ps -o args | grep -c '[s]leep 60' || true"); got != "0\n" {
				t.Errorf("of what was lost run: %s", got)
			}
		})
	}
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
