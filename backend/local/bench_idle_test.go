//go:build unix

package local_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/local"
	"github.com/sandbox-go/sandbox/internal/benchtest"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// BenchmarkIdle has 1,000 idle sandboxes, in each of which one command ran, and reports
// what each costs the service; how long echo hi takes in one more of them, as a ratio to
// what it took when that was alone; the CPU time of a second in which nothing happens; and
// how long closing them takes, together, and for 1,000 in which nothing ever ran.
func BenchmarkIdle(b *testing.B) {
	const many, runs = 1000, 200
	back, err := local.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer back.Close(context.Background())
	m := sandbox.NewManager(back, &sandbox.ManagerOptions{MaxSandboxes: 2*many + 1})
	defer m.Close(context.Background())
	created := 0
	create := func() sandbox.Sandbox {
		created++
		sb, err := m.Create(context.Background(), sandbox.Key{Name: strconv.Itoa(created)}, nil)
		if err != nil {
			b.Fatal(err)
		}
		return sb
	}
	for b.Loop() {
		one := create()
		latency := func() time.Duration {
			var took []time.Duration
			for range runs {
				took = append(took, timed(func() { echo(b, one) }))
			}
			return benchtest.Median(took)
		}
		latency() // the first commands start supervisors
		alone, memory := latency(), programtest.InUse()
		idle := make([]sandbox.Sandbox, many)
		for n := range idle {
			idle[n] = create()
			echo(b, idle[n])
		}
		b.ReportMetric(float64(programtest.InUse()-memory)/many/1024, "KiB/idle")
		b.ReportMetric(float64(latency())/float64(alone), "latency-ratio")
		before := programtest.CPUTime(b)
		time.Sleep(time.Second)
		b.ReportMetric(float64((programtest.CPUTime(b)-before).Microseconds())/1000, "idle-CPU-ms/s")
		unused := make([]sandbox.Sandbox, many)
		for n := range unused {
			unused[n] = create()
		}
		b.ReportMetric(float64(closeAll(b, unused).Milliseconds()), "close-unused-ms")
		b.ReportMetric(float64(closeAll(b, idle).Milliseconds()), "close-ms")
		b.ReportMetric(0, "ns/op")
	}
}

// closeAll closes sandboxes as a Manager does, and returns how long that took.
func closeAll(b *testing.B, all []sandbox.Sandbox) time.Duration {
	return timed(func() {
		var group sync.WaitGroup
		slots := make(chan struct{}, 32)
		for _, sb := range all {
			slots <- struct{}{}
			group.Go(func() {
				defer func() { <-slots }()
				if err := sb.Close(context.Background()); err != nil {
					b.Error(err)
				}
			})
		}
		group.Wait()
	})
}
