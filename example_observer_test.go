package sandbox_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
)

// A span stands for a tracing library's, such as OpenTelemetry's.
type span struct {
	name, parent string
	began        time.Time
}

type spanKey struct{}

func withSpan(ctx context.Context, name string, began time.Time) context.Context {
	s := &span{name: name, began: began}
	if parent, ok := ctx.Value(spanKey{}).(*span); ok {
		s.parent = parent.name
	}
	return context.WithValue(ctx, spanKey{}, s)
}

// spans makes a span of each execution, below the span of who started it.
type spans struct {
	sandbox.NopObserver // the methods that are not of interest
}

func (spans) ExecutionStarted(ctx context.Context, e sandbox.ExecutionEvent) context.Context {
	return withSpan(ctx, e.Execution.Command.Shell, e.Execution.StartedAt)
}

func (spans) ExecutionEnded(ctx context.Context, e sandbox.ExecutionEvent) {
	s := ctx.Value(spanKey{}).(*span)
	took := e.Execution.FinishedAt.Sub(s.began)
	fmt.Printf("%s: %s < %s, %s, measured: %t\n", e.Key.Name, s.parent, s.name, e.Execution.Status, took > 0)
}

// An observer that traces executions: the context that it returns when one has started
// is what it gets when that one has ended.
func ExampleObserver() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("make test", fake.Result(0, "", ""))
	m := sandbox.NewManager(b, &sandbox.ManagerOptions{Observer: spans{}})

	sb, err := m.GetOrCreate(ctx, sandbox.Key{Name: "kitchen"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	request := withSpan(ctx, "POST /test", time.Now())
	if _, err := sb.Run(request, sandbox.Command{Shell: "make test"}); err != nil {
		fmt.Println(err)
	}
	if err := m.Close(ctx); err != nil { // which waits until the observer has seen all
		fmt.Println(err)
	}
	// Output:
	// kitchen: POST /test < make test, completed, measured: true
}
