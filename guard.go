package sandbox

import (
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
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
