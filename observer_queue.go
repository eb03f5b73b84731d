package sandbox

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// maxEvents and maxEventBytes bound what waits for a slow observer.
	maxEvents     = 4096
	maxEventBytes = 64 << 20

	// observeTime is how long a Close waits for a slow observer.
	observeTime = 10 * time.Second
)

// events calls an observer, with one event after another. Its goroutine is there
// only while there is something to tell.
type events struct {
	to  Observer     // nil is nobody
	log *slog.Logger // may be nil

	mu      sync.Mutex // guards all below
	queue   []event
	bytes   int64         // of what is in the queue
	serving chan struct{} // closed when the goroutine ends; nil while there is none
	missed  int           // events that there was no room for
}

type event struct {
	tell func()
	size int64
}

// sandbox has what, a method of Observer, called.
func (e *events) sandbox(ctx context.Context, what func(Observer, context.Context, SandboxEvent), event SandboxEvent) {
	if e.to != nil {
		ctx = context.WithoutCancel(ctx)
		e.add(func() { what(e.to, ctx, event) }, 0)
	}
}

// waited tells that a start has waited for a slot.
func (e *events) waited(ctx context.Context, event WaitEvent) {
	if e.to != nil {
		ctx = context.WithoutCancel(ctx)
		e.add(func() { e.to.StartWaited(ctx, event) }, 0)
	}
}

// add has the observer called. It never waits.
func (e *events) add(tell func(), size int64) { e.addUpTo(maxEvents, tell, size) }

// addUpTo is add where no more than so many events wait.
func (e *events) addUpTo(most int, tell func(), size int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) >= most || len(e.queue) > 0 && e.bytes+size > maxEventBytes {
		if e.missed++; e.missed == 1 {
			go logError(e.log, "the observer is too slow: events are not shown to it", "waiting", len(e.queue))
		}
		return
	}
	e.queue = append(e.queue, event{tell, size})
	e.bytes += size
	if e.serving == nil {
		e.serving = make(chan struct{})
		go e.serve()
	}
}

// serve calls the observer until there is nothing more to tell.
func (e *events) serve() {
	done := false
	defer func() {
		if !done { // the observer has ended its goroutine
			go e.serve()
		}
	}()
	for {
		next, ok := e.next()
		if !ok {
			done = true
			return
		}
		if caught := protect(next.tell); caught != nil {
			logError(e.log, "the observer has panicked", "panic", caught.value, "stack", string(caught.stack))
		}
	}
}

func (e *events) next() (event, bool) {
	e.mu.Lock()
	if len(e.queue) > 0 {
		defer e.mu.Unlock()
		next := e.queue[0]
		e.queue[0] = event{}
		e.queue = e.queue[1:]
		e.bytes -= next.size
		return next, true
	}
	if missed := e.missed; missed > 0 {
		e.missed = 0
		e.mu.Unlock()
		logError(e.log, "events were not shown to the observer, which was too slow", "events", missed)
		return e.next()
	}
	e.queue = nil
	close(e.serving)
	e.serving = nil
	e.mu.Unlock()
	return event{}, false
}

// wait waits until all has been told, for observeTime at most and no longer than ctx.
func (e *events) wait(ctx context.Context) {
	e.mu.Lock()
	serving := e.serving
	e.mu.Unlock()
	if serving == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, observeTime)
	defer cancel()
	select {
	case <-serving:
		return
	default:
	}
	select {
	case <-serving:
	case <-ctx.Done():
		e.mu.Lock()
		waiting := len(e.queue)
		e.mu.Unlock()
		go logError(e.log, "closed while the observer is at work", "events", waiting)
	}
}
