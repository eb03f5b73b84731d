package faketest

import (
	"context"

	"github.com/sandbox-go/sandbox"
)

type records struct {
	sandbox.NopObserver
	show func(sandbox.Key, *sandbox.Execution)
}

// Records returns an observer that calls show with the record of each execution when
// it has started and when it has ended.
func Records(show func(sandbox.Key, *sandbox.Execution)) sandbox.Observer {
	return records{show: show}
}

func (r records) ExecutionStarted(_ context.Context, e sandbox.ExecutionEvent) context.Context {
	r.show(e.Key, e.Execution)
	return nil
}

func (r records) ExecutionEnded(_ context.Context, e sandbox.ExecutionEvent) {
	r.show(e.Key, e.Execution)
}
