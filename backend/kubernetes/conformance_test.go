package kubernetes_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/backendtest"
	"github.com/sandbox-go/sandbox/backend/kubernetes"
)

func TestConformance(t *testing.T) {
	c := testCluster(t)
	t.Run("restricted", func(t *testing.T) { backendtest.Run(t, c.harness(kubernetes.Restricted)) })
	c.namespace = c.allowing(t, kubernetes.Baseline)
	t.Run("baseline", func(t *testing.T) {
		h := c.harness(kubernetes.Baseline)
		if os.Getenv("SANDBOX_TEST_FULL") == "1" {
			backendtest.Run(t, h)
			return
		}
		for _, k := range backendtest.Cases() {
			if slices.Contains(ofUsers, k.Name) {
				t.Run(k.Name, func(t *testing.T) {
					t.Parallel()
					k.Check(t, h)
				})
			}
		}
	})
}

// ofUsers are the cases that are about who commands run as, in which a pod of the level
// baseline differs. All the others hold there too: they are run with the long counts.
var ofUsers = []string{
	"a-kill-of-all-stays-inside", "sandboxes-cannot-reach-each-other", "the-service-is-not-seen",
	"files-and-commands-share", "a-terminal-can-be-reopened", "the-start-directory-stays", "zombies-are-reaped",
}

func (c cluster) harness(level kubernetes.PodSecurity) backendtest.Harness {
	return backendtest.Harness{
		New: func(tb testing.TB) backend.Backend {
			// The case closes it.
			b, err := kubernetes.New(context.Background(), testOptions(tb, kubernetes.Options{
				Namespace: c.namespace, PodSecurity: level, Limits: backend.Limits{CPUs: -1},
			}))
			if err != nil {
				tb.Fatal(err)
			}
			return b
		},
		Shell:    true,
		Proc:     true,
		HostProc: c.isLocal(),
		Refused:  &backend.Config{Network: "no-such-network"},
		Echo: func(port int) sandbox.Command {
			return sandbox.Command{Argv: []string{"nc", "-ll", "-p", strconv.Itoa(port), "-e", "cat"}}
		},
		Lose: func(tb testing.TB, _ backend.Backend, id string) { c.remove(tb, c.podOf(tb, id)) },
	}
}

// allowing returns a namespace that admits pods of that level.
func (c cluster) allowing(tb testing.TB, level kubernetes.PodSecurity) string {
	tb.Helper()
	name := "sandbox-test-" + string(level)
	_, err := c.CoreV1().Namespaces().Create(testContext(tb), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": string(level)},
	}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		tb.Fatal(err)
	}
	return name
}

// isLocal reports whether the nodes' processes are seen in this machine's /proc: then the
// cluster's directory is here.
func (c cluster) isLocal() bool {
	_, err := os.Stat(filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), "bin", "kubelet"))
	return err == nil
}
