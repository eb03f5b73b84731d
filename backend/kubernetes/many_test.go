//go:build unix

package kubernetes_test

import (
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/kubernetes"
	"github.com/sandbox-go/sandbox/internal/benchtest"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// What many sandboxes cost: the API server nothing for a command, and no more for each
// sandbox however many there are. It prints the figures of SCALE.md.
// SANDBOX_TEST_MANY is how many sandboxes to have; a kubelet has 110 pods at most.
func TestManySandboxes(t *testing.T) {
	if os.Getenv("SANDBOX_TEST_FULL") != "1" {
		t.Skip("takes minutes: set SANDBOX_TEST_FULL=1")
	}
	many := 50
	if n, err := strconv.Atoi(os.Getenv("SANDBOX_TEST_MANY")); err == nil {
		many = n
	}
	c := testCluster(t)
	r := &recorder{asked: make(map[string]int)}
	b := newBackend(t, kubernetes.Options{
		Config: r.config(c), AgentImage: c.agentImage(t), Limits: backend.Limits{CPUs: -1},
	})
	output(t, newSandbox(t, b, nil), "true") // what all share
	all := make([]sandbox.Sandbox, many)
	makeAll := func(t *testing.T, what string, atOnce int, one func(n int) error) {
		var group errgroup.Group
		group.SetLimit(atOnce)
		begin, cpu := time.Now(), programtest.CPUTime(t)
		for n := range many {
			group.Go(func() error { return one(n) })
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d %s made, %d at once: %v each, and %v of the service's CPU", many, what, atOnce,
			(time.Since(begin) / time.Duration(many)).Round(time.Millisecond), ((programtest.CPUTime(t) - cpu) / time.Duration(many)).Round(time.Millisecond))
	}
	create := func(atOnce int) {
		t.Run("", func(t *testing.T) {
			makeAll(t, "plain pods with an init container", atOnce, func(int) error { return c.runPod(t, true) })
		})
		before := r.counts()
		makeAll(t, "sandboxes", atOnce, func(n int) (err error) {
			all[n], err = sandbox.New(t.Context(), b, nil)
			return err
		})
		r.log(t, "made", before, many)
	}
	remove := func() {
		var group errgroup.Group
		group.SetLimit(8)
		begin, before := time.Now(), r.counts()
		for _, sb := range all {
			group.Go(func() error { return sb.Close(t.Context()) })
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		t.Logf("%d sandboxes closed, 8 at once: %v each", many, (time.Since(begin) / time.Duration(many)).Round(time.Millisecond))
		r.log(t, "closed", before, many)
	}

	memory, goroutines := programtest.InUse(), runtime.NumGoroutine()
	create(1)
	t.Logf("each idle: %d KiB of heap and stacks, %.1f goroutines", (programtest.InUse()-memory)/int64(many)>>10, float64(runtime.NumGoroutine()-goroutines)/float64(many))

	const commands = 20
	begin, before := time.Now(), r.counts()
	var group errgroup.Group
	group.SetLimit(8)
	for _, sb := range all {
		group.Go(func() error {
			for range commands {
				if err := benchtest.Echo(testContext(t), sb); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d commands, 8 at once: %v each", many*commands, (time.Since(begin) / time.Duration(many*commands)).Round(time.Microsecond))
	for what, n := range r.counts() {
		if n > before[what] && !ofService(what) {
			t.Errorf("for %d commands it was asked %d times for %s", many*commands, n-before[what], what)
		}
	}

	begin, before = time.Now(), r.counts()
	time.Sleep(10 * time.Second)
	sum := 0
	for what, n := range r.counts() {
		sum += n - before[what]
	}
	t.Logf("idle, all together: %.2f requests a second", float64(sum)/time.Since(begin).Seconds())
	remove()
	create(8)
	remove()
}

// ofService reports whether a request is one that a service makes now and then, however
// many sandboxes it has.
func ofService(what string) bool {
	return strings.HasPrefix(what, "coordination.k8s.io ") || what == " pods list" || what == " pods watch"
}

// log prints what was asked since then for each of so many.
func (r *recorder) log(t *testing.T, done string, before map[string]int, many int) {
	t.Helper()
	now := r.counts()
	for _, what := range slices.Sorted(maps.Keys(now)) {
		if n := now[what] - before[what]; n > 0 && !ofService(what) {
			t.Logf("asked for each that was %s: %.1f ×%s", done, float64(n)/float64(many), strings.TrimPrefix(what, " "))
		}
	}
}
