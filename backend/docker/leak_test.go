package docker_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/docker"
)

// Executions leave nothing: no goroutine and descriptor of the service, no exec
// record of the engine, no process in the container.
func TestManyExecutions(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	sb := newSandbox(t, newBackend(t, docker.Options{}), nil)
	n := 1000
	if os.Getenv("SANDBOX_TEST_FULL") == "1" {
		n = 10000
	}
	look := func() [4]int {
		top, err := api.ContainerTop(ctx, containerOf(sb), client.ContainerTopOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return [4]int{runtime.NumGoroutine(), descriptors(t), len(inspect(t, api, containerOf(sb)).ExecIDs), len(top.Processes)}
	}
	many := func(n int) {
		for range n {
			rec, err := sb.Run(ctx, sandbox.Command{Shell: "echo hi"})
			if err != nil || rec.Stdout.String() != "hi\n" {
				t.Fatalf("%v, %s", err, describe(rec))
			}
		}
	}
	many(20)
	before := look()
	many(n)
	after := look()
	for i, what := range []string{"goroutines", "descriptors", "exec records", "processes"} {
		if after[i] > before[i]+3 {
			t.Errorf("%s: %d before, %d after", what, before[i], after[i])
		}
	}
	if after[2] != 1 {
		t.Errorf("the engine has %d exec records", after[2])
	}
}

// descriptors returns how many this process has open.
func descriptors(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Skip(err)
	}
	return len(entries)
}
