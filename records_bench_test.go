package sandbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
)

// BenchmarkRecords compares sandboxes that keep more and more records: what each costs a
// list of all, and how long a Run takes that puts the oldest out.
func BenchmarkRecords(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ctx := context.Background()
			back := fake.New(nil)
			sb, err := sandbox.New(ctx, back, &sandbox.Options{Records: n})
			if err != nil {
				b.Fatal(err)
			}
			run := func() {
				if _, err := sb.Run(ctx, sandbox.Command{Shell: "true"}); err != nil {
					b.Fatal(err)
				}
			}
			for range n {
				run()
			}
			var list, one time.Duration
			for b.Loop() {
				began := time.Now()
				if got := len(sb.Execs()); got != n {
					b.Fatalf("%d records", got)
				}
				list += time.Since(began)
				began = time.Now()
				run()
				one += time.Since(began)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(list.Nanoseconds())/float64(b.N*n), "list-ns/record")
			b.ReportMetric(float64(one.Microseconds())/float64(b.N), "run-µs")
			if err := sb.Close(ctx); err != nil {
				b.Error(err)
			}
			back.Close(ctx)
		})
	}
}
