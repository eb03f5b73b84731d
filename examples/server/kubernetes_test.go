package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// In the cluster that .ci/kubernetes-up starts all three APIs run commands in pods, and
// SIGTERM leaves none.
func TestKubernetes(t *testing.T) {
	if os.Getenv("SANDBOX_TEST_KUBERNETES") == "" {
		t.Skip("SANDBOX_TEST_KUBERNETES does not say that KUBECONFIG names a test cluster: sh .ci/kubernetes-up DIR starts one")
	}
	owner := fmt.Sprintf("server-%d", os.Getpid())
	pods := func() string {
		t.Helper()
		kubectl := exec.Command(filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), "bin", "kubectl"),
			"get", "pods", "-o", "name", "-l", "sandbox-go.github.io/owner="+owner)
		kubectl.Env = append(os.Environ(), "KUBECACHEDIR="+t.TempDir())
		out, err := kubectl.CombinedOutput()
		if err != nil && !strings.Contains(string(out), "No resources found") {
			t.Fatalf("kubectl: %v\n%s", err, out)
		}
		return string(out)
	}
	s := serve(t, nil, "-keys", keyFile(t, "k"), "-backend", "kubernetes", "-image", "sandbox.test/busybox:1", "-owner", owner)
	s.do(t, "k", "POST", "/agents/a/sandbox/exec", `{"command":"echo $HOSTNAME"}`, 200, `"stdout":"sandbox-sbx-`)
	s.do(t, "k", "POST", "/api/rooms/r/sandbox/exec", `{"cmd":"pwd"}`, 200, `"stdout":"/workspace\n"`)
	s.do(t, "k", "POST", "/v1/sandboxes", `{}`, 201, `"id":"sbx_`)
	if n := strings.Count(pods(), "pod/sandbox-sbx-"); n != 3 {
		t.Errorf("%d pods: %s", n, pods())
	}
	s.stop(t)
	if left := pods(); strings.Contains(left, "pod/") {
		t.Errorf("left behind: %s", left)
	}
}
