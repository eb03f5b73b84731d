package sandbox

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// What the user gives to be called, such as an observer or a reader, is called from
// goroutines of this package too, where a panic would end the process and a call
// that takes its time would hold up what it has nothing to do with.

// A panicError is a panic of the user's code that was caught.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Unwrap returns the value that was given to panic if it is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// protect calls do, and returns its panic as an error.
func protect(do func()) (caught *panicError) {
	defer func() {
		if v := recover(); v != nil {
			caught = &panicError{v, debug.Stack()}
		}
	}()
	do()
	return nil
}

// logError logs to l, which may be nil, and whose handler may panic.
func logError(l *slog.Logger, msg string, args ...any) {
	if l != nil {
		protect(func() { l.Error(msg, args...) })
	}
}

// A guardedReader is a reader of the user's whose panics are errors. The first error
// stays.
type guardedReader struct {
	r      io.Reader
	failed func(error) // is told the first error but io.EOF; nil is nobody
	err    error
}

func (g *guardedReader) Read(p []byte) (n int, err error) {
	if g.err != nil {
		return 0, g.err
	}
	if caught := protect(func() { n, err = g.r.Read(p) }); caught != nil {
		n, err = 0, caught
	}
	if n < 0 || n > len(p) {
		n, err = 0, fmt.Errorf("the reader claims to have read %d of %d bytes", n, len(p))
	}
	if g.err = err; err != nil && err != io.EOF && g.failed != nil {
		g.failed(err)
	}
	return n, err
}

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

// add has the observer called. It never waits.
func (e *events) add(tell func(), size int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) >= maxEvents || len(e.queue) > 0 && e.bytes+size > maxEventBytes {
		if e.missed++; e.missed == 1 {
			go logError(e.log, "the observer is too slow: records are not shown to it", "waiting", len(e.queue))
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
		logError(e.log, "records were not shown to the observer, which was too slow", "records", missed)
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
		go logError(e.log, "closed while the observer is at work", "records", waiting)
	}
}
