package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
)

// A stdin is the input of a command that is written to while it runs: the read
// end is the backend's, the write end the caller's. Unlike with an io.Pipe, the
// waiting of a writer ends with its context.
type stdin struct {
	first io.Reader // what is read before what is written, or nil

	turn   chan struct{} // of capacity 1: held by who writes or closes
	data   chan []byte   // from that writer to the reader
	taken  chan int      // back: how much of it was taken
	closed chan struct{} // by CloseStdin
	over   chan struct{} // the execution is over
	close  func()
	end    func()
}

func newStdin(first io.Reader) *stdin {
	s := &stdin{
		first:  first,
		turn:   make(chan struct{}, 1),
		data:   make(chan []byte),
		taken:  make(chan int),
		closed: make(chan struct{}),
		over:   make(chan struct{}),
	}
	s.close = sync.OnceFunc(func() { close(s.closed) })
	s.end = sync.OnceFunc(func() { close(s.over) })
	return s
}

// Read is for one goroutine.
func (s *stdin) Read(p []byte) (int, error) {
	if s.first != nil {
		n, err := s.first.Read(p)
		if err == nil || n > 0 {
			return n, nil
		}
		s.first = nil
		if err != io.EOF {
			s.close() // nothing more is read
			return 0, err
		}
	}
	if len(p) == 0 {
		return 0, nil
	}
	select {
	case data := <-s.data:
		n := copy(p, data)
		s.taken <- n
		return n, nil
	case <-s.closed:
		return 0, io.EOF
	case <-s.over:
		return 0, io.EOF
	}
}

// lock waits for the caller's turn, which ends with unlock.
func (s *stdin) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *stdin) unlock() { <-s.turn }

// finish closes the input after the writes at work.
func (s *stdin) finish(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	s.close()
	return nil
}

func (s *stdin) write(ctx context.Context, p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, cmp.Or(ctx.Err(), s.refusal())
	}
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.unlock()
	for len(p) > 0 {
		if err := s.refusal(); err != nil {
			return n, err
		}
		select {
		case s.data <- p:
			taken := <-s.taken
			n += taken
			p = p[taken:]
		case <-s.closed:
		case <-s.over:
		case <-ctx.Done():
			return n, ctx.Err()
		}
	}
	return n, nil
}

// refusal says why nothing can be written any more, or nil.
func (s *stdin) refusal() error {
	select {
	case <-s.over:
		return errOver
	default:
	}
	select {
	case <-s.closed:
		return io.ErrClosedPipe
	default:
		return nil
	}
}

// errNoStdin is the answer of a command without an input to write to.
var errNoStdin = &InvalidError{Field: FieldOpenStdin, Problem: "its input was not kept open: set OpenStdin when it is started"}

// errOver is what an execution that is over says to those who want to act on it.
var errOver = fmt.Errorf("the execution is over: %w", os.ErrProcessDone)
