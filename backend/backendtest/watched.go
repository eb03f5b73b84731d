package backendtest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// maxStacks bounds what is shown of the goroutines of a test that hangs.
const maxStacks = 256 << 10

// watched runs f as a part of tb, in a goroutine of its own. When it takes longer than
// limit, tb fails with the stacks of all goroutines, and f is left behind.
func watched(tb testing.TB, limit time.Duration, f func(testing.TB)) {
	tb.Helper()
	w := &watchedTB{TB: tb}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(w)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		if tb.Skipped() {
			tb.SkipNow()
		}
	case <-timer.C:
		w.leave()
		stacks := make([]byte, maxStacks)
		tb.Fatalf("it hangs after %v; all goroutines:\n%s", limit, stacks[:runtime.Stack(stacks, true)])
	}
}

// A watchedTB is a test that is told nothing any more once it has been left: after
// its end that would panic.
type watchedTB struct {
	testing.TB
	mu   sync.RWMutex // guards left
	left bool
}

func (w *watchedTB) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = true
}

// present reports whether the test still wants to know. Then the caller holds mu.
func (w *watchedTB) present() bool {
	w.mu.RLock()
	if w.left {
		w.mu.RUnlock()
		return false
	}
	return true
}

func (w *watchedTB) Errorf(format string, args ...any) {
	w.Helper()
	if w.present() {
		defer w.mu.RUnlock()
		w.TB.Errorf(format, args...)
	}
}

func (w *watchedTB) Logf(format string, args ...any) {
	w.Helper()
	if w.present() {
		defer w.mu.RUnlock()
		w.TB.Logf(format, args...)
	}
}

func (w *watchedTB) Fatalf(format string, args ...any) {
	w.Helper()
	if w.present() {
		defer w.mu.RUnlock()
		w.TB.Fatalf(format, args...)
	}
	runtime.Goexit()
}

func (w *watchedTB) Skipf(format string, args ...any) {
	w.Helper()
	if w.present() {
		defer w.mu.RUnlock()
		w.TB.Skipf(format, args...)
	}
	runtime.Goexit()
}

func (w *watchedTB) Error(args ...any) { w.Helper(); w.Errorf("%s", fmt.Sprint(args...)) }
func (w *watchedTB) Log(args ...any)   { w.Helper(); w.Logf("%s", fmt.Sprint(args...)) }
func (w *watchedTB) Fatal(args ...any) { w.Helper(); w.Fatalf("%s", fmt.Sprint(args...)) }
func (w *watchedTB) Skip(args ...any)  { w.Helper(); w.Skipf("%s", fmt.Sprint(args...)) }
