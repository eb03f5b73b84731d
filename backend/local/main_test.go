//go:build unix

package local_test

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/local"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// asKeyUser is the variable that makes it do to its user's keys what it holds, "add" or
// "find".
const asKeyUser = "SANDBOX_TEST_KEYS"

// asFew is the variable that makes it drop most capabilities first.
const asFew = "SANDBOX_TEST_FEW"

func TestMain(m *testing.M) {
	if os.Getenv(asFew) != "" {
		keepFew()
	}
	if what := os.Getenv(asKeyUser); what != "" {
		useKeys(what)
	}
	programtest.Commands()
	programtest.Serve(func() (*local.Backend, error) { return local.New(nil) })
	// Most cases wait rather than compute. A flag of the command line wins.
	flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
	goleak.VerifyTestMain(m)
}

// newBackend makes a backend that is closed with the test.
func newBackend(t *testing.T, opts *local.Options) backend.Backend {
	t.Helper()
	b, err := local.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func newInstance(t *testing.T, b backend.Backend, id string) backend.Instance {
	t.Helper()
	i, err := b.Create(t.Context(), &backend.Config{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func start(t *testing.T, i backend.Instance, s backend.Spec) backend.Process {
	t.Helper()
	if s.Stdout == nil {
		s.Stdout = io.Discard
	}
	if s.Stderr == nil {
		s.Stderr = io.Discard
	}
	p, err := i.Start(t.Context(), &s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// output runs s to its end and returns what it wrote, to either stream.
func output(t *testing.T, i backend.Instance, s backend.Spec) string {
	t.Helper()
	var out, errs bytes.Buffer
	s.Stdout, s.Stderr = &out, &errs
	p := start(t, i, s)
	if _, err := p.Exit(); err != nil {
		t.Fatal(err)
	}
	<-p.OutputOver()
	return out.String() + errs.String()
}
