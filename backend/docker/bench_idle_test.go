//go:build unix

package docker_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/docker"
	"github.com/sandbox-go/sandbox/internal/benchtest"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// BenchmarkIdle has 16 idle sandboxes, in each of which commands ran and wrote a lot, and
// reports what each costs the service: memory of the heap and the stacks, goroutines, and
// CPU time of a second in which nothing happens.
func BenchmarkIdle(b *testing.B) {
	engine(b)
	const many = 16
	back := newBackend(b, docker.Options{})
	newSandbox(b, back, nil) // what all share
	for b.Loop() {
		memory, goroutines := programtest.InUse(), runtime.NumGoroutine()
		idle := make([]sandbox.Sandbox, many)
		for n := range idle {
			idle[n] = newSandbox(b, back, nil)
			rec, err := idle[n].Run(b.Context(), sandbox.Command{Shell: "head -c 10000000 /dev/zero", MaxOutput: 1})
			if err != nil || rec.Stdout.Total != 10_000_000 {
				b.Fatalf("%v, %s", err, describe(rec))
			}
			if err := benchtest.Echo(b.Context(), idle[n]); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(programtest.InUse()-memory)/many/1024, "KiB/idle")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/many, "goroutines/idle")
		before := programtest.CPUTime(b)
		time.Sleep(time.Second)
		b.ReportMetric(float64((programtest.CPUTime(b)-before).Microseconds())/1000, "idle-CPU-ms/s")
		b.ReportMetric(0, "ns/op")
		runtime.KeepAlive(idle)
	}
}
