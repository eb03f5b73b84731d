package kubernetes_test

import (
	"context"
	"os"
	"path/filepath"
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
	for _, level := range []kubernetes.PodSecurity{kubernetes.Restricted, kubernetes.Baseline} {
		t.Run(string(level), func(t *testing.T) {
			in := c
			if level == kubernetes.Baseline {
				in.namespace = c.allowing(t, level)
			}
			backendtest.Run(t, in.harness(level))
		})
	}
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
