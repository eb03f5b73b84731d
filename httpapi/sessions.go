package httpapi

import (
	"context"
	"sync"
)

// A sessions counts the connections that were taken over from the server, which
// waits for them no more.
type sessions struct {
	mu   sync.Mutex // guards all below
	n    int
	idle chan struct{} // closed when n gets 0; nil when it is 0
}

// begin counts one more, until end is called.
func (s *sessions) begin() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		s.idle = make(chan struct{})
	}
	s.n++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.n--; s.n == 0 {
			close(s.idle)
			s.idle = nil
		}
	})
}

// wait waits until there is none, or ctx ends.
func (s *sessions) wait(ctx context.Context) error {
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
