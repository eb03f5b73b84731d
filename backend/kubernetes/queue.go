package kubernetes

import (
	"io"
	"sync"
)

// How much a queue holds before a Write waits, and how much memory one keeps that is
// empty, in bytes.
const (
	maxQueued = 256 << 10
	maxKept   = 64 << 10
)

// A queue hands what one goroutine writes to another that reads. Neither waits for the
// other for each piece, as at an io.Pipe.
type queue struct {
	mu      sync.Mutex // guards what follows
	changed sync.Cond
	data    []byte
	read    int   // how much of data has been read
	closed  bool  // nobody reads any more
	err     error // what Read returns after the last byte; nil while there may be more
}

func newQueue() *queue {
	q := new(queue)
	q.changed.L = &q.mu
	return q
}

// Write never fails: what nobody reads any more is dropped.
func (q *queue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.data)-q.read >= maxQueued && !q.closed {
		q.changed.Wait()
	}
	if q.closed {
		return len(p), nil
	}
	if q.read > 0 && len(q.data)+len(p) > cap(q.data) {
		q.data = q.data[:copy(q.data, q.data[q.read:])]
		q.read = 0
	}
	q.data = append(q.data, p...)
	q.changed.Broadcast()
	return len(p), nil
}

// Read waits for bytes.
func (q *queue) Read(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.data) == q.read && q.err == nil && !q.closed {
		q.changed.Wait()
	}
	switch {
	case q.closed:
		return 0, io.ErrClosedPipe
	case len(q.data) == q.read:
		return 0, q.err
	}
	n := copy(p, q.data[q.read:])
	if q.read += n; q.read == len(q.data) {
		q.data, q.read = q.data[:0], 0
		if cap(q.data) > maxKept {
			q.data = nil // more may be long in coming
		}
	}
	q.changed.Broadcast()
	return n, nil
}

// end has Read return err after the last byte.
func (q *queue) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.err = err
	q.changed.Broadcast()
}

// discard ends reading.
func (q *queue) discard() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.data, q.read = true, nil, 0
	q.changed.Broadcast()
}
