package host

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// A Destruction happens once, whoever waits for it, and again after an error. The zero value
// is ready. Its methods may be called concurrently.
type Destruction struct {
	mu      sync.Mutex    // guards what follows
	running chan struct{} // closed when it is over; nil while there is none
	err     error         // what came of the last
	done    bool
	uses    sync.WaitGroup // Add only with mu held, and not after it has begun
}

// Use reports whether no destruction has begun. If so, one that begins waits until the
// caller calls Unuse.
func (d *Destruction) Use() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begunLocked() {
		return false
	}
	d.uses.Add(1)
	return true
}

// Unuse ends what Use has begun.
func (d *Destruction) Unuse() { d.uses.Done() }

// Begun reports whether a destruction has begun, and has not failed.
func (d *Destruction) Begun() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.begunLocked()
}

func (d *Destruction) begunLocked() bool { return d.done || d.running != nil }

// Do has destroy called, which goes on when ctx ends, and waits for what comes of it.
func (d *Destruction) Do(ctx context.Context, destroy func() error) error {
	d.mu.Lock()
	if d.done {
		d.mu.Unlock()
		return nil
	}
	running := d.running
	if running == nil {
		running = make(chan struct{})
		d.running = running
		go d.do(running, destroy)
	}
	d.mu.Unlock()
	select {
	case <-running:
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *Destruction) do(running chan<- struct{}, destroy func() error) {
	d.uses.Wait()
	err := destroy()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.done, d.running = err, err == nil, nil
	close(running)
}

// Instances are those of a backend that have not been destroyed. The zero value is none. Its
// methods may be called concurrently.
type Instances[I interface {
	comparable
	Destroy(context.Context) error
}] struct {
	mu     sync.Mutex // guards what follows
	all    map[I]bool
	closed bool
}

// Add adds an instance, or reports that Close has been called.
func (s *Instances[I]) Add(i I) (added bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.all == nil {
		s.all = make(map[I]bool)
	}
	s.all[i] = true
	return true
}

// Remove removes an instance that has been destroyed.
func (s *Instances[I]) Remove(i I) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, i)
}

// All returns them.
func (s *Instances[I]) All() []I {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]I, 0, len(s.all))
	for i := range s.all {
		all = append(all, i)
	}
	return all
}

// Close has no more instances be added, and destroys those that there are, each of which lose
// is called with first. After an error it may be called again.
func (s *Instances[I]) Close(ctx context.Context, lose func(I)) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	var all errgroup.Group
	for _, i := range s.All() {
		lose(i)
		all.Go(func() error { return i.Destroy(ctx) })
	}
	return all.Wait()
}
