package kubernetes_test

import (
	"context"
	"io"
	"net/http"
	"os/exec"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/kubernetes"
	"github.com/sandbox-go/sandbox/internal/benchtest"
)

// A way is one of those that a benchmark compares, the first with the others.
type way struct {
	name string
	do   func() error
}

// compare runs each way as a sub-benchmark, and says by how much the median of the
// first differs from the others'.
func compare(b *testing.B, bytes int64, ways ...way) {
	medians := make([]time.Duration, len(ways))
	for n, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			b.SetBytes(bytes)
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				if err := way.do(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
			}
			medians[n] = benchtest.Median(took)
			b.ReportMetric(float64(medians[n])/1e6, "p50-ms")
		})
	}
	for n := 1; n < len(ways); n++ {
		if medians[0] > 0 && medians[n] > 0 {
			b.Logf("p50 of %s is %.3f of %s", ways[0].name, float64(medians[0])/float64(medians[n]), ways[n].name)
		}
	}
}

// exec runs a command the way that kubectl exec has for it.
func (c cluster) exec(pod string, argv []string) error {
	at := c.CoreV1().RESTClient().Post().Namespace(c.namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: kubernetes.ContainerName, Command: argv, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec).URL()
	e, err := remotecommand.NewWebSocketExecutor(c.config, http.MethodGet, at.String())
	if err != nil {
		return err
	}
	return e.StreamWithContext(context.Background(), remotecommand.StreamOptions{Stdout: io.Discard, Stderr: io.Discard})
}

func BenchmarkEcho(b *testing.B) {
	c := testCluster(b)
	sb := newSandbox(b, newBackend(b, kubernetes.Options{}), nil)
	pod, echo := c.podOf(b, sb.ID()), []string{"sh", "-c", "echo hi"}
	compare(b, 0,
		way{"sandbox", func() error { return benchtest.Echo(context.Background(), sb) }},
		way{"os-exec", func() error { return exec.Command(echo[0], echo[1:]...).Run() }},
		way{"api-server-exec", func() error { return c.exec(pod, echo) }},
	)
}

func BenchmarkStream(b *testing.B) {
	const size = 64 << 20
	c := testCluster(b)
	sb := newSandbox(b, newBackend(b, kubernetes.Options{}), nil)
	pod, zeros := c.podOf(b, sb.ID()), []string{"head", "-c", "67108864", "/dev/zero"}
	compare(b, size,
		way{"sandbox", func() error {
			return benchtest.Stream(context.Background(), sb, sandbox.Command{Argv: zeros, MaxOutput: -1}, size)
		}},
		way{"api-server-exec", func() error { return c.exec(pod, zeros) }},
	)
}

// From nothing to the first result, and to a pod that kubectl run made being Running.
func BenchmarkSandbox(b *testing.B) {
	c := testCluster(b)
	ctx := context.Background()
	backend := newBackend(b, kubernetes.Options{})
	compare(b, 0,
		way{"sandbox", func() error {
			sb, err := sandbox.New(ctx, backend, nil)
			if err != nil {
				return err
			}
			b.Cleanup(func() { closeIn(b, sb.Close) })
			return benchtest.Echo(context.Background(), sb)
		}},
		way{"pod-is-running", func() error { return c.runPod(b, false) }},
	)
}
