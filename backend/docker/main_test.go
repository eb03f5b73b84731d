package docker_test

import (
	"cmp"
	"context"
	"os"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/docker"
)

func TestMain(m *testing.M) {
	if run := services[os.Getenv(serviceVar)]; run != nil {
		run()
		return
	}
	code := m.Run()
	removeTestImage()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	os.Exit(code)
}

// testTime bounds what a test asks of the engine.
const testTime = 2 * time.Minute

func testContext(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	tb.Cleanup(cancel)
	return ctx
}

// engine returns a client of the engine, for a look from outside. It skips the
// test when no engine answers, and fails it where one is required.
func engine(tb testing.TB) *client.Client {
	tb.Helper()
	api, err := client.New(client.FromEnv)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { api.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		if os.Getenv("SANDBOX_TEST_DOCKER") == "require" {
			tb.Fatalf("no Docker engine answers: %v", err)
		}
		tb.Skipf("no Docker engine answers: %v", err)
	}
	return api
}

// newBackend returns a backend of the test's own owner, which is closed in the
// end. Options other than Owner and Image are the caller's.
func newBackend(tb testing.TB, opts docker.Options) *docker.Backend {
	tb.Helper()
	api := engine(tb)
	opts.Image = testImage(tb, api)
	opts.Connection = cmp.Or(opts.Connection, connection)
	if opts.Owner == "" {
		opts.Owner = ownerOf(tb)
	}
	b, err := docker.New(testContext(tb), &opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closeIn(tb, b.Close) })
	return b
}

// connection is the way to the agents where a test does not choose one.
var connection = docker.Connection(os.Getenv("SANDBOX_TEST_CONNECTION"))

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

// run runs a shell text to its end.
func run(tb testing.TB, sb sandbox.Sandbox, text string) *sandbox.Execution {
	tb.Helper()
	rec, err := sb.Run(testContext(tb), sandbox.Command{Shell: text, Timeout: testTime})
	if err != nil {
		tb.Fatal(err)
	}
	return rec
}

// output runs a shell text that is to succeed, and returns its stdout.
func output(tb testing.TB, sb sandbox.Sandbox, text string) string {
	tb.Helper()
	rec := run(tb, sb, text)
	if rec.Status != sandbox.Completed || *rec.ExitCode != 0 {
		tb.Fatalf("%s: %s", text, describe(rec))
	}
	return rec.Stdout.String()
}
