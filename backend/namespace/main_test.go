//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"context"
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/escapetest"
	"github.com/sandbox-go/sandbox/backend/namespace"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

func TestMain(m *testing.M) {
	escapetest.Main()
	programtest.Commands()
	programtest.Serve(func() (*namespace.Backend, error) { return namespace.New(nil) })
	if os.Getenv(asStacker) != "" {
		stack()
	}
	if os.Getenv(asTried) != "" {
		try()
	}
	if os.Getenv(asRefused) != "" {
		refuse()
	}
	// Most cases wait rather than compute. A flag of the command line wins.
	flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
	goleak.VerifyTestMain(m)
}

// required is the variable that makes tests fail where the machine lacks what they need,
// when it is "require".
const required = "SANDBOX_TEST_NAMESPACE"

// lacking ends a test that the machine has not enough for.
func lacking(t testing.TB, err error) {
	t.Helper()
	if os.Getenv(required) == "require" {
		t.Fatal(err)
	}
	t.Skipf("the machine lacks something: %v", err)
}

// newBackend makes a backend that is closed with the test.
func newBackend(t testing.TB, opts *namespace.Options) *namespace.Backend {
	t.Helper()
	b, err := namespace.New(opts)
	if err != nil {
		lacking(t, err)
	}
	t.Cleanup(func() { closeIn(t, b.Close) })
	return b
}

func newSandbox(t testing.TB, b backend.Backend, opts *sandbox.Options) sandbox.Sandbox {
	t.Helper()
	sb, err := sandbox.New(t.Context(), b, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIn(t, sb.Close) })
	return sb
}

func closeIn(t testing.TB, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := f(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// output runs shell text to its end and returns what it wrote, to either stream.
func output(t testing.TB, sb sandbox.Sandbox, text string) string {
	t.Helper()
	rec, err := sb.Run(t.Context(), sandbox.Command{Shell: text})
	if err != nil {
		t.Fatal(err)
	}
	if rec.Err != nil {
		t.Errorf("%s: %v", text, rec.Err)
	}
	return rec.Stdout.String() + rec.Stderr.String()
}
