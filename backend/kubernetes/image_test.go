package kubernetes_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/kubernetes"
)

// busybox is a static program that acts as what it is called.
const busybox = "/bin/busybox"

// image gives the nodes an image of those files, programs all, and returns its name. It
// skips the test where the cluster is not of .ci/kubernetes-up.
func (c cluster) image(tb testing.TB, name string, files map[string][]byte, entrypoint ...string) string {
	tb.Helper()
	if !c.isLocal() {
		tb.Skip("the cluster is none of .ci/kubernetes-up, which can be given images")
	}
	layer := archive(tb, files)
	sum := sha256.Sum256(layer)
	ref := "sandbox.test/" + name + ":" + hex.EncodeToString(sum[:8]) // so that no other run's is taken
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Env": []string{"FROM_IMAGE=" + name}, "Entrypoint": entrypoint},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{ref}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(tb.TempDir(), "image.tar")
	whole := archive(tb, map[string][]byte{"config.json": config, "manifest.json": manifest, "layer.tar": layer})
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		tb.Fatal(err)
	}
	load := exec.Command("sh", "../../.ci/kubernetes-up", "-l", file, filepath.Dir(os.Getenv("KUBECONFIG")))
	if out, err := load.CombinedOutput(); err != nil {
		tb.Fatalf("load the image: %v\n%s", err, out)
	}
	return ref
}

func archive(tb testing.TB, files map[string][]byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(files[name]))}); err != nil {
			tb.Fatal(err)
		}
		w.Write(files[name])
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func busyboxProgram(tb testing.TB) []byte {
	tb.Helper()
	program, err := os.ReadFile(busybox)
	if err != nil {
		tb.Skipf("the tests' images are made of a static busybox (Debian: busybox-static): %v", err)
	}
	return program
}

// installers returns the files of an image that has that agent.
func installers(program, agent []byte) map[string][]byte {
	files := map[string][]byte{"sandbox-agent": agent}
	for _, name := range []string{"sh", "cat", "chmod", "sha256sum"} {
		files["bin/"+name] = program
	}
	return files
}

// agentImage gives the nodes an image that has the agent, and returns its name.
func (c cluster) agentImage(tb testing.TB) string {
	tb.Helper()
	program := busyboxProgram(tb)
	agent, err := kubernetes.Agent(runtime.GOARCH)
	if err != nil {
		tb.Fatal(err)
	}
	return c.image(tb, "with-agent", installers(program, agent))
}

// An image without a shell is one to run commands in, where another brings the agent:
// with a shell, to which it is sent, or with the agent in it. Else it is refused soon,
// and the error says what to name.
func TestImageWithoutShell(t *testing.T) {
	c, ctx := testCluster(t), testContext(t)
	program := busyboxProgram(t)
	bare := c.image(t, "bare", map[string][]byte{"bin/echo": program})
	withAgent, withOther := c.agentImage(t), c.image(t, "with-other", installers(program, program))

	for name, agentImage := range map[string]string{"a-shell": testImage, "the-agent": withAgent} {
		t.Run(name, func(t *testing.T) {
			sb := newSandbox(t, newBackend(t, kubernetes.Options{Image: bare, AgentImage: agentImage}), nil)
			rec := run(t, sb, sandbox.Command{Argv: []string{"echo", "hi"}})
			if rec.Status != sandbox.Completed || rec.Stdout.String() != "hi\n" {
				t.Errorf("the record: %s", describe(rec))
			}
			if rec := run(t, sb, sandbox.Command{Shell: "echo hi"}); rec.Status != sandbox.Failed {
				t.Errorf("without a shell: %s", describe(rec))
			}
		})
	}
	for name, agentImage := range map[string]string{"nothing": "", "another-agent": withOther} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			_, err := sandbox.New(ctx, newBackend(t, kubernetes.Options{Image: bare, AgentImage: agentImage}), nil)
			if !errors.Is(err, kubernetes.BadImage) {
				t.Errorf("the error: %v", err)
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			t.Log(err)
		})
	}
}

// An image that the nodes cannot get fails Create, and nothing is left.
func TestNoImage(t *testing.T) {
	c := testCluster(t)
	b := newBackend(t, kubernetes.Options{Image: "sandbox.test/missing:1"})
	if _, err := sandbox.New(testContext(t), b, nil); !errors.Is(err, kubernetes.NoImage) {
		t.Errorf("the error: %v", err)
	}
	closeIn(t, b.Close)
	c.nothingLeft(t, ownerOf(t))
}
