package kubernetes_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The manifests run examples/server in the cluster: with the rights of its service account
// it makes sandboxes that its clients use, and leaves nothing.
func TestDeployed(t *testing.T) {
	t.Parallel()
	c := testCluster(t)
	k := kubectl{t, fmt.Sprintf("sandboxes-%d", started.UnixNano())}
	image := c.image(t, "server", map[string][]byte{"server": serverProgram(t)}, "/server")
	rename := strings.NewReplacer(
		"sandboxes\n", k.namespace+"\n",
		"image: sandbox-server ", "image: "+image+" ",
		"debian:stable-slim", testImage,
	)
	apply := func(files ...string) {
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			k.run(rename.Replace(string(text)), "apply", "-f", "-")
		}
	}
	t.Cleanup(func() { k.run("", "delete", "namespace", k.namespace, "--wait=false") })
	apply("deploy/rbac.yaml", "deploy/warmpool.yaml", "deploy/networkpolicy.yaml")
	k.run("", "create", "secret", "generic", "sandbox-service", "--from-literal=keys=secret")
	apply("deploy/deployment.yaml")
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(k.run("", "get", "pods,events"), k.run("", "logs", "-l", "app=sandbox-service"))
		}
	})
	k.run("", "rollout", "status", "deployment/sandbox-service", "--timeout", testTime.String())

	s := k.forward("service/sandbox-service", "80")
	made := regexp.MustCompile(`"id":"(sbx_[a-z0-9]+)"`).FindStringSubmatch(s.do(t, "POST", "/v1/sandboxes", "{}"))
	if made == nil {
		t.FailNow()
	}
	sandbox := "/v1/sandboxes/" + made[1]
	if got := s.do(t, "POST", sandbox+"/exec", `{"command":"echo $HOSTNAME; exit 3"}`); !strings.Contains(got, `"exit_code":3`) || !strings.Contains(got, `"stdout":"sandbox-sbx-`) {
		t.Errorf("a command: %s", got)
	}
	if pods := k.sandboxes(); strings.Count(pods, "pod/sandbox-sbx-") != 1 {
		t.Errorf("with a sandbox the pods are %q", pods)
	}
	s.do(t, "DELETE", sandbox, "")
	if pods := k.sandboxes(); pods != "" {
		t.Errorf("left of a sandbox: %q", pods)
	}

	s.do(t, "POST", "/agents/a/sandbox/exec", `{"command":"true"}`)
	k.run("", "delete", "deployment", "sandbox-service", "--cascade=foreground")
	if left := k.sandboxes() + k.run("", "get", "leases", "-o", "name"); left != "" {
		t.Errorf("left of a service: %q", left)
	}
}

// serverProgram returns examples/server as an image of nothing else has it.
func serverProgram(tb testing.TB) []byte {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "server")
	build := exec.Command("go", "build", "-C", "../../examples/server", "-o", file, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build the server: %v\n%s", err, out)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return program
}

// A kubectl looks at a namespace from outside.
type kubectl struct {
	testing.TB
	namespace string
}

func (k kubectl) command(args ...string) *exec.Cmd {
	config := os.Getenv("KUBECONFIG")
	cmd := exec.Command(filepath.Join(filepath.Dir(config), "bin", "kubectl"), append([]string{"-n", k.namespace}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+filepath.Join(filepath.Dir(config), "cache"))
	return cmd
}

// run returns what kubectl prints to stdout.
func (k kubectl) run(stdin string, args ...string) string {
	k.Helper()
	cmd := k.command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		k.Errorf("kubectl %q: %v: %s", args, err, &stderr)
	}
	return string(out)
}

// sandboxes returns the names of the pods that are sandboxes.
func (k kubectl) sandboxes() string {
	k.Helper()
	return k.run("", "get", "pods", "-o", "name", "-l", "sandbox-go.github.io/owner")
}

// forward returns the service at a port of the cluster, until the end of the test.
func (k kubectl) forward(to, port string) deployed {
	k.Helper()
	cmd := k.command("port-forward", to, ":"+port)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	if address == "" {
		k.Fatalf("kubectl port-forward said %q, %v", line, err)
	}
	return deployed("http://" + address)
}

// A deployed is the URL of a service, which has the key "secret".
type deployed string

// do makes a request that is to succeed, and returns the answer.
func (d deployed) do(t *testing.T, method, path, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(testContext(t), method, string(d)+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer secret")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Errorf("%s %s: %s: %s, %v", method, path, resp.Status, got, err)
	}
	return string(got)
}
