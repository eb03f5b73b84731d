package kubernetes_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/kubernetes"
	"github.com/sandbox-go/sandbox/internal/benchtest"
)

// From a warm pool to the first result, and from nothing, with the agent in an image. The
// pool is for six rounds at most (-benchtime 5x): it is not filled again, which would be
// measured too.
func BenchmarkWarmPool(b *testing.B) {
	image := testCluster(b).agentImage(b)
	p := newPool(b, 6, kubernetes.Options{AgentImage: image})
	fixed := []byte(`{"spec":{"replicas":0}}`)
	if _, err := p.of(warmPools).Patch(testContext(b), p.name, types.MergePatchType, fixed, metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
	first := func(opts kubernetes.Options) func() error {
		on := newBackend(b, opts)
		return func() error {
			sb, err := sandbox.New(context.Background(), on, nil)
			if err != nil {
				return err
			}
			b.Cleanup(func() { closeIn(b, sb.Close) })
			return benchtest.Echo(context.Background(), sb)
		}
	}
	compare(b, 0,
		way{"warm-pool", first(kubernetes.Options{AgentImage: image, WarmPool: p.name})},
		way{"new-pod", first(kubernetes.Options{AgentImage: image, Owner: ownerOf(b) + "/new"})},
	)
}
