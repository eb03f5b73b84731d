package backendtest_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox/backend/backendtest"
)

// asBroken is the variable of the environment that has TestBroken run.
const asBroken = "SANDBOX_TEST_BROKEN"

// TestBroken fails: TestBrokenAtTheRoot looks at how.
func TestBroken(t *testing.T) {
	if os.Getenv(asBroken) == "" {
		t.Skip("it fails on purpose, for another test")
	}
	i := slices.IndexFunc(faults(), func(f fault) bool { return f.caughtBy == "a-command-runs" })
	backendtest.Run(t, harness(faults()[i]))
}

// A backend that runs no command fails at the first case, and the others are not run.
func TestBrokenAtTheRoot(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run", "^TestBroken$", "-test.v")
	cmd.Env = append(os.Environ(), asBroken+"=1")
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err == nil || !strings.Contains(text, "FAIL: TestBroken/a-command-runs") || !strings.Contains(text, "cases are not run") {
		t.Errorf("%v: %s", err, text)
	}
	if n := strings.Count(text, "=== RUN   TestBroken/"); n != 1 {
		t.Errorf("%d cases were run", n)
	}
}

// A case that hangs fails by itself, and what it finds later is told to nobody.
func TestHangingCase(t *testing.T) {
	r := &recorder{TB: t}
	release, over := make(chan struct{}), make(chan struct{})
	hang := func(tb testing.TB) {
		tb.Errorf("first")
		<-release
		tb.Errorf("late")
		tb.Fatalf("later")
	}
	go func() {
		defer close(over)
		backendtest.Watched(r, 50*time.Millisecond, hang)
	}()
	<-over
	close(release)
	if len(r.findings) != 2 || r.findings[0] != "first" || !strings.Contains(r.findings[1], "TestHangingCase") {
		t.Errorf("found %q", r.findings)
	}
}
