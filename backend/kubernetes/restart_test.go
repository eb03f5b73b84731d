package kubernetes_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/kubernetes"
)

// The test binary runs itself as a service that a test kills.
const (
	serviceVar = "SANDBOX_TEST_SERVICE"
	ownerVar   = "SANDBOX_TEST_OWNER"
	abandonVar = "SANDBOX_TEST_ABANDON"
	poolVar    = "SANDBOX_TEST_POOL"
)

var services = map[string]func(){"sleep": sleepService}

// sleepService has one sandbox with a loop in it. It prints the sandbox's id when
// the loop runs, and lives until it is killed.
func sleepService() {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	abandon, err := time.ParseDuration("0" + os.Getenv(abandonVar))
	check(err)
	b, err := kubernetes.New(context.Background(), &kubernetes.Options{
		Kubeconfig: os.Getenv("KUBECONFIG"), Owner: os.Getenv(ownerVar), Image: testImage, AbandonAfter: abandon, WarmPool: os.Getenv(poolVar),
	})
	check(err)
	sb, err := sandbox.New(context.Background(), b, &sandbox.Options{Config: sandbox.Config{
		Env: map[string]string{"KEPT": "yes"}, Labels: map[string]string{"room": "blue green"},
	}})
	check(err)
	e, stream, err := sb.Follow(context.Background(), sandbox.Command{Shell: "echo kept >file; echo begun; while printf x >>beat; do sleep 0.05; done"})
	check(err)
	_, err = stream.Next(context.Background())
	check(err)
	fmt.Println(sb.ID())
	<-e.Done()
}

// startService starts a service of that owner and returns its process and its sandbox's id.
func startService(tb testing.TB, owner string, env ...string) (id string, service *os.Process) {
	tb.Helper()
	out, service := launchService(tb, owner, env...)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatalf("the service: %v", err)
	}
	return strings.TrimSpace(line), service
}

// launchService starts a service of that owner and returns its stdout and its process.
func launchService(tb testing.TB, owner string, env ...string) (out io.Reader, service *os.Process) {
	tb.Helper()
	testCluster(tb)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serviceVar+"=sleep", ownerVar+"="+owner)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return out, cmd.Process
}

// start runs a shell text in an instance to its end, and returns what it printed.
func start(tb testing.TB, i backend.Instance, text string) string {
	tb.Helper()
	var out strings.Builder
	p, err := i.Start(testContext(tb), &backend.Spec{Shell: text, Stdout: &out, Stderr: &out})
	if err != nil {
		tb.Fatal(err)
	}
	if exit, err := p.Exit(); err != nil || exit.Code != 0 {
		tb.Errorf("exit %+v, %v", exit, err)
	}
	<-p.OutputOver()
	return out.String()
}

// What a service that was killed, or that hangs, had running is dead when another replica
// has taken its sandbox over, and it stays so when the first goes on.
func TestTakeOver(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "hangs": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, ctx := testCluster(t), testContext(t)
			owner := ownerOf(t)
			id, service := startService(t, owner)
			b := newBackend(t, kubernetes.Options{Owner: owner})
			if opened, err := b.Recover(ctx); err != nil || len(opened) != 0 {
				t.Fatalf("of a living service it recovered %v, %v", opened, err)
			}
			if err := service.Signal(signal); err != nil {
				t.Fatal(err)
			}
			opened, err := b.Recover(ctx)
			if err != nil || len(opened) != 1 {
				t.Fatalf("recovered %v, %v", opened, err)
			}
			o := opened[0]
			want := &backend.Config{ID: id, Env: map[string]string{"KEPT": "yes"}, Labels: map[string]string{"room": "blue green"}}
			if diff := cmp.Diff(want, o.Config); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
			if age := time.Since(o.CreatedAt); age < 0 || age > testTime {
				t.Errorf("created at %v", o.CreatedAt)
			}
			if out := start(t, o.Instance, "cat file; pwd; id -u; echo $HOME $FROM_IMAGE"); !strings.HasPrefix(out, "kept\n/workspace\n1000\n/workspace") {
				t.Errorf("output %q", out)
			}
			size := start(t, o.Instance, "wc -c <beat")
			service.Signal(syscall.SIGCONT)
			if later := start(t, o.Instance, "sleep 2; wc -c <beat"); later != size {
				t.Errorf("what ran before goes on: %q, then %q", size, later)
			}
			if again, err := b.Recover(ctx); err != nil || len(again) != 0 {
				t.Errorf("recovered again: %v, %v", again, err)
			}
			service.Kill()
			closeIn(t, b.Close)
			if _, err := c.CoreV1().Pods(c.namespace).Get(ctx, "sandbox-"+strings.ReplaceAll(id, "_", "-"), metav1.GetOptions{}); err == nil {
				t.Error("the pod is left")
			}
		})
	}
}

// What a service that was killed while it made a sandbox has left is found by Recover.
func TestRecoverUnfinished(t *testing.T) {
	t.Parallel()
	c, owner := testCluster(t), ownerOf(t)
	_, service := launchService(t, owner)
	pods := func() (names []string) {
		for _, name := range c.left(t, owner) {
			if strings.HasPrefix(name, "pod ") {
				names = append(names, name)
			}
		}
		return names
	}
	eventually(t, "the service makes a pod", func() bool { return len(pods()) > 0 })
	service.Kill()
	b := newBackend(t, kubernetes.Options{Owner: owner})
	if _, err := b.Recover(testContext(t)); err != nil {
		t.Error(err)
	}
	closeIn(t, b.Close)
	if left := pods(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A pod ends when no service has come back for long enough, and not while there is one.
func TestAbandoned(t *testing.T) {
	t.Setenv(abandonVar, "4s")
	c := testCluster(t)
	owner := ownerOf(t)
	id, service := startService(t, owner)
	pod := c.podOf(t, id)
	phase := func() corev1.PodPhase {
		found, err := c.CoreV1().Pods(c.namespace).Get(testContext(t), pod, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return found.Status.Phase
	}
	time.Sleep(6 * time.Second)
	if p := phase(); p != corev1.PodRunning {
		t.Errorf("under its service it is %s", p)
	}
	service.Kill()
	eventually(t, "the pod has ended", func() bool { return phase() == corev1.PodSucceeded })
	newBackend(t, kubernetes.Options{Owner: owner})
	if _, err := c.CoreV1().Pods(c.namespace).Get(testContext(t), pod, metav1.GetOptions{}); err == nil {
		t.Error("the next service has not deleted the pod")
	}
}
