package httpapi

import "sync"

// whenClosed calls f in a goroutine once done is closed, unless stop is called first.
// Stop waits for an f that has begun; f is not called after it. Without stop, the
// goroutine lives until done is closed.
func whenClosed(done <-chan struct{}, f func()) (stop func()) {
	var watcher sync.WaitGroup
	stopped := make(chan struct{})
	watcher.Go(func() {
		select {
		case <-done:
			f()
		case <-stopped:
		}
	})
	return func() {
		close(stopped)
		watcher.Wait()
	}
}
