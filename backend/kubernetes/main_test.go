package kubernetes_test

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/kubernetes"
)

func TestMain(m *testing.M) {
	if run := services[os.Getenv(serviceVar)]; run != nil {
		run()
		return
	}
	goleak.VerifyTestMain(m)
}

// testTime bounds what a test asks of the cluster.
const testTime = 2 * time.Minute

// testImage is what the test cluster's nodes have: busybox, with an entrypoint, a user
// and a working directory that are not used.
const testImage = "sandbox.test/busybox:1"

func testContext(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	tb.Cleanup(cancel)
	return ctx
}

// A cluster is a look at the test cluster from outside.
type cluster struct {
	client.Interface
	config    *rest.Config
	namespace string
}

// testCluster returns the cluster that KUBECONFIG names, where SANDBOX_TEST_KUBERNETES says
// that it is one for tests: a developer's shell may name a cluster that others rely on. It
// skips the test where there is none, and fails it where that variable is "require".
func testCluster(tb testing.TB) cluster {
	tb.Helper()
	path, mode := os.Getenv("KUBECONFIG"), os.Getenv("SANDBOX_TEST_KUBERNETES")
	switch {
	case mode == "":
		tb.Skip("SANDBOX_TEST_KUBERNETES does not say that KUBECONFIG names a test cluster: sh .ci/kubernetes-up DIR starts one")
	case path == "" && mode == "require":
		tb.Fatal("KUBECONFIG names no test cluster")
	case path == "":
		tb.Skip("KUBECONFIG names no test cluster: sh .ci/kubernetes-up DIR starts one")
	}
	loading := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
	found := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, nil)
	config, err := found.ClientConfig()
	if err != nil {
		tb.Fatal(err)
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	namespace, _, err := found.Namespace()
	if err != nil {
		tb.Fatal(err)
	}
	over, err := rest.HTTPClientFor(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(over.CloseIdleConnections)
	api, err := client.NewForConfigAndClient(config, over)
	if err != nil {
		tb.Fatal(err)
	}
	return cluster{api, config, namespace}
}

// newBackend returns a backend of the test's own owner, which is closed in the end.
// Options that are not set are the tests' own.
func newBackend(tb testing.TB, opts kubernetes.Options) *kubernetes.Backend {
	tb.Helper()
	b, err := kubernetes.New(testContext(tb), testOptions(tb, opts))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closeIn(tb, b.Close) })
	return b
}

// testOptions returns opts for the test cluster.
func testOptions(tb testing.TB, opts kubernetes.Options) *kubernetes.Options {
	tb.Helper()
	c := testCluster(tb)
	if opts.Config == nil {
		opts.Config = c.config
	}
	if opts.Namespace == "" {
		opts.Namespace = c.namespace
	}
	if opts.Image == "" {
		opts.Image = testImage
	}
	if opts.Owner == "" {
		opts.Owner = ownerOf(tb)
	}
	opts.SingleProcessOOMKill = true
	return &opts
}

// ownerOf returns an owner that no other test and no other run has.
func ownerOf(tb testing.TB) string {
	return tb.Name() + "/" + started.Format(time.RFC3339Nano)
}

var started = time.Now()

func closeIn(tb testing.TB, close func(context.Context) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := close(ctx); err != nil {
		tb.Errorf("close: %v", err)
	}
}

// newSandbox returns a sandbox of b, which is closed in the end.
func newSandbox(tb testing.TB, b backend.Backend, cfg *backend.Config) sandbox.Sandbox {
	tb.Helper()
	opts := &sandbox.Options{}
	if cfg != nil {
		opts.Config = *cfg
	}
	sb, err := sandbox.New(testContext(tb), b, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closeIn(tb, sb.Close) })
	return sb
}

// run runs a command to its end.
func run(tb testing.TB, sb sandbox.Sandbox, cmd sandbox.Command) *sandbox.Execution {
	tb.Helper()
	rec, err := sb.Run(testContext(tb), cmd)
	if err != nil {
		tb.Fatal(err)
	}
	return rec
}

// output runs a shell text that is to succeed, and returns its stdout.
func output(tb testing.TB, sb sandbox.Sandbox, text string) string {
	tb.Helper()
	rec := run(tb, sb, sandbox.Command{Shell: text})
	if rec.Status != sandbox.Completed || *rec.ExitCode != 0 {
		tb.Fatalf("%s: %+v", text, rec)
	}
	return rec.Stdout.String()
}

// podOf returns the name of the sandbox's pod, as the cluster lists it.
func (c cluster) podOf(tb testing.TB, id string) string {
	tb.Helper()
	found, err := c.CoreV1().Pods("").List(testContext(tb), metav1.ListOptions{LabelSelector: "sandbox-go.github.io/id=" + id})
	if err != nil || len(found.Items) != 1 {
		tb.Fatalf("the pods of sandbox %s are %v: %v", id, found, err)
	}
	return found.Items[0].Name
}

// remove deletes a pod at once.
func (c cluster) remove(tb testing.TB, pod string) {
	tb.Helper()
	now := int64(0)
	if err := c.CoreV1().Pods(c.namespace).Delete(testContext(tb), pod, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		tb.Error(err)
	}
}
