package files

import (
	"encoding/binary"
	"io"
	"sync"
)

// The parts of a reply. Each is framed, so that its end is told: an empty one when the
// operation has begun, the output, and one that is the sign whether the process takes
// another operation, and after it what went wrong.
const (
	partBegun = iota
	partOutput
	partEnd
	parts
)

// The first byte of the last part.
const (
	signMore = '+' // the process takes another operation
	signLast = '-'
)

// A reply takes what a process writes for one operation, as it comes.
type reply struct {
	out    io.Writer     // of the operation; nil takes nothing
	stop   func()        // is called when out has failed
	begun  chan struct{} // closed when the operation has begun
	done   chan struct{} // closed after all else
	part   int
	header [4]byte
	got    int    // bytes of the present header
	left   int    // bytes of the present frame
	end    capped // the last part

	mu  sync.Mutex // guards err
	err error      // of out
}

func newReply(out io.Writer, stop func()) *reply {
	return &reply{out: out, stop: stop, begun: make(chan struct{}), done: make(chan struct{})}
}

// take takes the next bytes, and ignores what comes after the reply.
func (r *reply) take(p []byte) {
	for len(p) > 0 && r.part < parts {
		if r.left > 0 {
			n := min(r.left, len(p))
			r.content(p[:n])
			r.left -= n
			p = p[n:]
			continue
		}
		n := copy(r.header[r.got:], p)
		r.got += n
		p = p[n:]
		if r.got == len(r.header) {
			r.got, r.left = 0, int(binary.BigEndian.Uint32(r.header[:]))
			if r.left == 0 {
				r.endPart()
			}
		}
	}
}

func (r *reply) content(p []byte) {
	switch r.part {
	case partOutput:
		if r.out == nil || r.failed() != nil {
			return
		}
		if _, err := r.out.Write(p); err != nil {
			r.mu.Lock()
			r.err = err
			r.mu.Unlock()
			r.stop()
		}
	case partEnd:
		r.end.Write(p)
	}
}

func (r *reply) endPart() {
	switch r.part {
	case partBegun:
		close(r.begun)
	case partEnd:
		close(r.done)
	}
	r.part++
}

// failed returns why out has failed, if it has.
func (r *reply) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// more reports, once done is closed, whether the process takes another operation.
func (r *reply) more() bool {
	return r.failed() == nil && r.end.Len() > 0 && r.end.Bytes()[0] == signMore
}

// problem returns, once done is closed, the line of an error, or nothing.
func (r *reply) problem() string { return r.end.String()[min(1, r.end.Len()):] }
