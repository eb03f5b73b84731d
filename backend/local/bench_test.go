//go:build unix

package local_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/local"
	"github.com/sandbox-go/sandbox/internal/benchtest"
)

// newSandbox makes a sandbox that ends with the benchmark.
func newSandbox(b *testing.B) sandbox.Sandbox {
	b.Helper()
	back, err := local.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	sb, err := sandbox.New(b.Context(), back, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := sb.Close(ctx); err != nil {
			b.Error(err)
		}
		if err := back.Close(ctx); err != nil {
			b.Error(err)
		}
	})
	return sb
}

// BenchmarkRun runs echo hi, so many at once, in turns with os/exec, and reports medians.
func BenchmarkRun(b *testing.B) {
	for _, n := range []int{1, 4, 16, 64} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			sb := newSandbox(b)
			atOnce := func(f func()) time.Duration {
				return timed(func() {
					var all sync.WaitGroup
					for range n {
						all.Go(f)
					}
					all.Wait()
				})
			}
			atOnce(func() { echo(b, sb) }) // starts supervisors
			var ours, theirs []time.Duration
			for b.Loop() {
				theirs = append(theirs, atOnce(func() { echoExec(b) }))
				ours = append(ours, atOnce(func() { echo(b, sb) }))
			}
			report(b, benchtest.Median(ours), benchtest.Median(theirs))
		})
	}
}

// BenchmarkFile writes and reads a file of 1 KiB, in turns with echo hi, and reports each
// as a ratio to that.
func BenchmarkFile(b *testing.B) {
	sb := newSandbox(b)
	content := make([]byte, 1<<10)
	var write, read, run []time.Duration
	for b.Loop() {
		run = append(run, timed(func() { echo(b, sb) }))
		write = append(write, timed(func() {
			if err := sb.Files().WriteFile(b.Context(), "f", content, nil); err != nil {
				b.Error(err)
			}
		}))
		read = append(read, timed(func() {
			if got, err := sb.Files().ReadFile(b.Context(), "f", nil); err != nil || len(got) != len(content) {
				b.Errorf("%v, %d bytes", err, len(got))
			}
		}))
	}
	b.ReportMetric(float64(benchtest.Median(run).Microseconds()), "µs/echo")
	b.ReportMetric(float64(benchtest.Median(write))/float64(benchtest.Median(run)), "write/echo")
	b.ReportMetric(float64(benchtest.Median(read))/float64(benchtest.Median(run)), "read/echo")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkLargeFile writes and reads 100 MB, in turns with a file of the machine itself.
func BenchmarkLargeFile(b *testing.B) {
	const size = 100e6
	sb := newSandbox(b)
	outside := filepath.Join(b.TempDir(), "f")
	if err := errors.Join(benchtest.WriteFile(b.Context(), sb, "f", size), benchtest.WriteLocalFile(outside, size)); err != nil {
		b.Fatal(err)
	}
	for _, op := range []struct {
		name         string
		ours, theirs func() error
	}{
		{"write",
			func() error { return benchtest.WriteFile(b.Context(), sb, "f", size) },
			func() error { return benchtest.WriteLocalFile(outside, size) }},
		{"read",
			func() error { return benchtest.ReadFile(b.Context(), sb, "f", size) },
			func() error { return benchtest.ReadLocalFile(outside, size) }},
	} {
		b.Run(op.name, func(b *testing.B) {
			var ours, theirs []time.Duration
			for b.Loop() {
				for _, way := range []struct {
					do   func() error
					took *[]time.Duration
				}{{op.ours, &ours}, {op.theirs, &theirs}} {
					*way.took = append(*way.took, timed(func() {
						if err := way.do(); err != nil {
							b.Fatal(err)
						}
					}))
				}
			}
			report(b, benchtest.Median(ours), benchtest.Median(theirs))
		})
	}
}

func echo(b *testing.B, sb sandbox.Sandbox) {
	if err := benchtest.Echo(b.Context(), sb); err != nil {
		b.Error(err)
	}
}

func echoExec(b *testing.B) {
	out, err := exec.Command("sh", "-c", "echo hi").Output()
	if err != nil || string(out) != "hi\n" {
		b.Errorf("%v, %q", err, out)
	}
}

// BenchmarkStream passes bytes through a live stream, in turns with a pipe of
// os/exec.
func BenchmarkStream(b *testing.B) {
	const size = 64 << 20
	sb := newSandbox(b)
	b.SetBytes(size)
	var ours, theirs []time.Duration
	for b.Loop() {
		theirs = append(theirs, timed(func() { pipeExec(b, size) }))
		ours = append(ours, timed(func() { stream(b, sb, size) }))
	}
	report(b, benchtest.Median(ours), benchtest.Median(theirs))
}

// BenchmarkStreamMemory passes 512 MiB through a live stream, 4 GiB with
// SANDBOX_TEST_FULL=1, and reports the most memory that the service had meanwhile.
func BenchmarkStreamMemory(b *testing.B) {
	size := int64(512 << 20)
	if os.Getenv("SANDBOX_TEST_FULL") == "1" {
		size = 4 << 30
	}
	sb := newSandbox(b)
	b.SetBytes(size)
	most := uint64(0)
	for b.Loop() {
		done := make(chan struct{})
		var watching sync.WaitGroup
		watching.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(5 * time.Millisecond):
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.Sys-m.HeapReleased)
			}
		})
		stream(b, sb, size)
		close(done)
		watching.Wait()
	}
	b.ReportMetric(float64(most)/(1<<20), "MiB")
}

func stream(b *testing.B, sb sandbox.Sandbox, size int64) {
	if err := benchtest.Stream(b.Context(), sb, sandbox.Command{Argv: zeros(size)}, size); err != nil {
		b.Fatal(err)
	}
}

func pipeExec(b *testing.B, size int64) {
	argv := zeros(size)
	cmd := exec.Command(argv[0], argv[1:]...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	got, err := io.Copy(onlyWriter{io.Discard}, out)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil || got != size {
		b.Errorf("got %d bytes, want %d: %v", got, size, err)
	}
}

// onlyWriter keeps io.Copy from any other way than reading and writing.
type onlyWriter struct{ io.Writer }

func zeros(size int64) []string {
	return []string{"head", "-c", strconv.FormatInt(size, 10), "/dev/zero"}
}

func timed(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}

// report reports a time, that of os/exec in the same run, and their ratio.
func report(b *testing.B, ours, theirs time.Duration) {
	b.ReportMetric(float64(ours.Microseconds()), "µs/ours")
	b.ReportMetric(float64(theirs.Microseconds()), "µs/theirs")
	b.ReportMetric(float64(ours)/float64(theirs), "ratio")
	b.ReportMetric(0, "ns/op")
}
