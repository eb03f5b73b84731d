//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
)

// pause is longer than the kernel takes to remove a network.
const pause = 100 * time.Millisecond

// BenchmarkFirst makes a sandbox, runs echo hi in it and removes it, in turns with bubblewrap
// and with sh alone, and reports medians: until the result, and of the removal. Before each
// there is a pause, since the kernel makes no network while it still removes others.
func BenchmarkFirst(b *testing.B) {
	back := newBackend(b, nil)
	bwrap := []string{"bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--die-with-parent"}
	if _, err := exec.LookPath(bwrap[0]); err != nil {
		b.Skip(err)
	}
	var first, removal, bubble, shell []time.Duration
	for b.Loop() {
		time.Sleep(pause)
		shell = append(shell, timed(func() { echoExec(b) }))
		bubble = append(bubble, timed(func() { echoExec(b, bwrap...) }))
		time.Sleep(pause)
		var sb sandbox.Sandbox
		first = append(first, timed(func() {
			var err error
			if sb, err = sandbox.New(b.Context(), back, nil); err != nil {
				b.Fatal(err)
			}
			echo(b, sb)
		}))
		removal = append(removal, timed(func() { sb.Close(context.Background()) }))
	}
	report(b, map[string][]time.Duration{"first": first, "removal": removal, "bwrap": bubble, "sh": shell})
}

// BenchmarkRun runs echo hi, in turns with os/exec, and reports medians.
func BenchmarkRun(b *testing.B) {
	sb := newSandbox(b, newBackend(b, nil), nil)
	var ours, theirs []time.Duration
	for b.Loop() {
		theirs = append(theirs, timed(func() { echoExec(b) }))
		ours = append(ours, timed(func() { echo(b, sb) }))
	}
	report(b, map[string][]time.Duration{"run": ours, "sh": theirs})
}

func echo(b *testing.B, sb sandbox.Sandbox) {
	b.Helper()
	if out := output(b, sb, "echo hi"); out != "hi\n" {
		b.Errorf("%q", out)
	}
}

// echoExec runs echo hi, by the program and arguments of before, if any.
func echoExec(b *testing.B, before ...string) {
	b.Helper()
	argv := append(slices.Clone(before), "sh", "-c", "echo hi")
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	if err != nil || string(out) != "hi\n" {
		b.Errorf("%v, %q", err, out)
	}
}

func timed(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}

// report reports the median of each in milliseconds.
func report(b *testing.B, all map[string][]time.Duration) {
	b.ReportMetric(0, "ns/op")
	for name, times := range all {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms/"+name)
	}
}
