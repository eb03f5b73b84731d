//go:build unix

package docker_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/docker"
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
		memory, goroutines := inUse(), runtime.NumGoroutine()
		idle := make([]sandbox.Sandbox, many)
		for n := range idle {
			idle[n] = newSandbox(b, back, nil)
			rec, err := idle[n].Run(b.Context(), sandbox.Command{Shell: "head -c 10000000 /dev/zero", MaxOutput: 1})
			if err != nil || rec.Stdout.Total != 10_000_000 {
				b.Fatalf("%v, %s", err, describe(rec))
			}
			if err := runEcho(idle[n]); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(inUse()-memory)/many/1024, "KiB/idle")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/many, "goroutines/idle")
		before := cpuTime(b)
		time.Sleep(time.Second)
		b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/1000, "idle-CPU-ms/s")
		b.ReportMetric(0, "ns/op")
		runtime.KeepAlive(idle)
	}
}

// inUse returns how much memory the heap and the stacks take.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
