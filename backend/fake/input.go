package fake

import (
	"io"
	"sync"
)

// input is the pipe that a command reads.
type input struct {
	mu       sync.Mutex // guards what follows
	changed  sync.Cond
	buf      []byte
	finished bool // no more comes
	closed   bool // nobody reads any more
}

func newInput() *input {
	in := &input{}
	in.changed.L = &in.mu
	return in
}

// feed puts all of r, as typed makes it, into the pipe, until nobody reads any
// more.
func (in *input) feed(r io.Reader, typed func([]byte) []byte) {
	defer in.finish()
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if !in.write(typed(buf[:n])) || err != nil {
			return
		}
	}
}

// write waits for room. It reports whether anybody can still read.
func (in *input) write(b []byte) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.buf) > 0 && len(in.buf)+len(b) > pipeSize && !in.closed {
		in.changed.Wait()
	}
	in.buf = append(in.buf, b...)
	in.changed.Broadcast()
	return !in.closed
}

// read waits for bytes, for the end, or for dead to be closed.
func (in *input) read(b []byte, dead <-chan struct{}) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.buf) == 0 && !in.finished && !isClosed(dead) {
		in.changed.Wait()
	}
	if len(in.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(b, in.buf)
	in.buf = in.buf[n:]
	in.changed.Broadcast()
	return n, nil
}

// finish marks the end of the input.
func (in *input) finish() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.finished = true
	in.changed.Broadcast()
}

// close is the end of the reading side.
func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed, in.buf = true, nil
	in.changed.Broadcast()
}

// wake lets those look again who wait with a channel that is closed now.
func (in *input) wake() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.changed.Broadcast()
}
