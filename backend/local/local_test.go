package local_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newInstance makes a sandbox that ends with the test.
func newInstance(t testing.TB, opts *local.Options) backend.Instance {
	t.Helper()
	b, err := local.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	i, err := b.Create(t.Context(), &backend.Config{ID: "sbx_1"})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// run runs shell text to its end and returns what it wrote.
func run(t testing.TB, i backend.Instance, text string) (stdout, stderr string, exit backend.Exit) {
	t.Helper()
	var out, errs bytes.Buffer
	p, err := i.Start(t.Context(), &backend.Spec{Shell: text, Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatal(err)
	}
	exit, err = p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	<-p.OutputOver()
	return out.String(), errs.String(), exit
}

func TestRun(t *testing.T) {
	for _, groups := range []bool{false, true} {
		i := newInstance(t, &local.Options{ProcessGroups: groups})
		for range 3 {
			begin := time.Now()
			out, errs, exit := run(t, i, "echo hi; env; id; pwd; ls -la . ..; echo x >/dev/stderr; ls -l /proc/self/fd; exit 3")
			t.Log(out, errs, exit, exit.Usage, time.Since(begin))
		}
	}
}
