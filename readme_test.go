package sandbox_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/fake"
	"github.com/sandbox-go/sandbox/backend/local"
	"github.com/sandbox-go/sandbox/httpapi"
)

// What follows is what README.md shows.

func Example_short() {
	ctx := context.Background()
	_ = func() (*sandbox.Execution, error) {
		b, err := local.New(nil) // or docker.New(ctx, nil)
		sb, err := sandbox.New(ctx, b, nil)
		rec, err := sb.Run(ctx, sandbox.Command{Shell: "make test", Timeout: time.Minute})
		return rec, err
	}
}

func Example_egress() {
	_ = func(ctx context.Context, b sandbox.Backend) (sandbox.Sandbox, error) {
		sb, err := sandbox.New(ctx, b, &sandbox.Options{Config: sandbox.Config{
			Egress: &sandbox.Egress{Allow: []string{"proxy.golang.org", "*.npmjs.org", "github.com:443"}},
		}})
		return sb, err
	}
}

func Example() {
	_ = func() error {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		b, err := local.New(nil) // or docker.New(ctx, nil)
		if err != nil {
			return err
		}
		defer b.Close(context.WithoutCancel(ctx)) // also after Ctrl-C, which ends ctx
		sb, err := sandbox.New(ctx, b, nil)
		if err != nil {
			return err
		}
		defer sb.Close(context.WithoutCancel(ctx))

		rec, err := sb.Run(ctx, sandbox.Command{
			Shell:   "make test 2>&1 | tail -n 20",
			Env:     map[string]string{"CI": "true"},
			Timeout: 5 * time.Minute,
		})
		if err != nil {
			return err // it could not be done; that a command fails is no error
		}
		fmt.Println(rec.Status, rec.Stdout)
		return nil
	}
}

func Example_mount() {
	ctx := context.Background()
	_ = func(b backend.Backend, mux *http.ServeMux) error {
		key, err := os.ReadFile("/run/secrets/api-key")
		if err != nil {
			return err
		}
		m := sandbox.NewManager(b, &sandbox.ManagerOptions{MaxRunning: 64}) // 16 for each owner
		defer m.Close(context.WithoutCancel(ctx))
		api := httpapi.New(m, &httpapi.Options{
			Authenticate: httpapi.BearerKeys(map[string]string{strings.TrimSpace(string(key)): "me"}),
		})
		api.Register(mux)
		return nil
	}
}

func TestReadmeFake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fake.New(nil)
		b.Handle("make", func(p *fake.Process) int {
			p.Sleep(time.Hour)
			return 0
		})
		sb, err := sandbox.New(t.Context(), b, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer sb.Close(context.Background())

		rec, err := sb.Run(t.Context(), sandbox.Command{Shell: "make", Timeout: time.Minute})
		if err != nil || rec.Status != sandbox.TimedOut {
			t.Errorf("make ended as %v, %v", rec, err)
		}
	})
}

func TestReadmeShowsWhatIsCompiledHere(t *testing.T) {
	text := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	unindent := func(s string) string { return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(s, "") }
	source := unindent(text("readme_test.go"))
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(text("README.md"), -1)
	if len(snippets) < 3 {
		t.Fatalf("README.md has %d snippets in Go, want three", len(snippets))
	}
	for _, s := range snippets {
		if !strings.Contains(source, unindent(s[1])) {
			t.Errorf("this snippet of README.md is not in readme_test.go:\n%s", s[1])
		}
	}
}
