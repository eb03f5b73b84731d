// Package wire is what the agent's processes and the service say to each other:
// framed messages, the same between two processes of one machine and on the
// streams of a connection into a container.
//
// A frame is a length of four bytes, most significant first, and so many bytes:
// the message's kind, then its fields, numbers as varints and strings after
// their length. Each side says Hello first.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
)

// Version is of the messages and their meaning. Sides of different versions do
// not talk.
const Version = 6

// MaxFrame is the largest frame in bytes. It is more than the kernel takes as
// arguments and environment, so what does not fit could not be started.
const MaxFrame = 16 << 20

const headerSize = 4

// ErrTooLong: the message does not fit in a frame.
var ErrTooLong = errors.New("message too long")

// Append appends m's frame to b.
func Append(b []byte, m Message) ([]byte, error) {
	start := len(b)
	c := codec{buf: append(b, 0, 0, 0, 0, kinds[reflect.TypeOf(m)])}
	m.code(&c)
	size := len(c.buf) - start - headerSize
	if size > MaxFrame {
		return b, ErrTooLong
	}
	binary.BigEndian.PutUint32(c.buf[start:], uint32(size))
	return c.buf, nil
}

// Parse returns the message of a frame's content, the bytes after its length.
// An Output refers to content; every other message is a copy.
func Parse(content []byte) (Message, error) {
	if len(content) == 0 {
		return nil, errMalformed
	}
	kind := int(content[0])
	if kind < 1 || kind > len(messages) {
		return nil, fmt.Errorf("unknown message %d", kind)
	}
	m := messages[kind-1]()
	c := codec{buf: content[1:], decoding: true}
	m.code(&c)
	if c.err == nil && len(c.buf) > 0 {
		c.err = errMalformed
	}
	return m, c.err
}

// frames are buffers for Write.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// Write writes m's frame with one call of w.Write.
func Write(w io.Writer, m Message) error {
	buf := frames.Get().(*[]byte)
	defer frames.Put(buf)
	b, err := Append((*buf)[:0], m)
	if err != nil {
		return err
	}
	if cap(b) <= keep {
		*buf = b
	}
	_, err = w.Write(b)
	return err
}

// A Reader reads messages. It is for one goroutine.
type Reader struct {
	r   io.Reader
	hdr [headerSize]byte
	buf []byte
}

// NewReader returns a Reader of r's frames. It reads no further than a frame's
// end.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// keep is the size from which on a frame's buffer is not kept for the next.
const keep = 256 << 10

// little is the size of a frame's buffer that is always kept.
const little = 512

// Shrink gives back the memory that a large message has needed: the next may be long in
// coming.
func (r *Reader) Shrink() {
	if cap(r.buf) > little {
		r.buf = nil
	}
}

// Next returns the next message. An Output's Data is valid until the next call.
// The error is io.EOF when the stream ended between frames.
func (r *Reader) Next() (Message, error) {
	if cap(r.buf) > keep {
		r.buf = nil // the next may be long in coming
	}
	if _, err := io.ReadFull(r.r, r.hdr[:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(r.hdr[:]))
	if size > MaxFrame {
		return nil, ErrTooLong
	}
	if err := r.fill(size); err != nil {
		return nil, err
	}
	return Parse(r.buf)
}

// fill reads a frame's content. The buffer grows with what has come, not with
// what a length claims.
func (r *Reader) fill(size int) error {
	r.buf = r.buf[:0]
	for len(r.buf) < size {
		n := len(r.buf)
		grown := min(size, max(2*n, keep))
		if cap(r.buf) < grown {
			r.buf = append(make([]byte, 0, grown), r.buf...)
		}
		r.buf = r.buf[:grown]
		if _, err := io.ReadFull(r.r, r.buf[n:]); err != nil {
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

// StderrPrefix begins what a process that cannot start says in place of its hello.
const StderrPrefix = "sandbox-agent: "

// Unusable begins what the agent says on stderr of an image in which commands
// could not write where they must.
const Unusable = "unusable image"

// ErrVersion: the other side speaks another version of the protocol.
var ErrVersion = fmt.Errorf("the other side does not speak version %d", Version)

// Greet says Hello and reads the other side's, and nothing beyond it.
func Greet(rw io.ReadWriter) error {
	if err := Write(rw, &Hello{Version: Version}); err != nil {
		return err
	}
	m, err := NewReader(rw).Next()
	if err != nil {
		return err
	}
	if h, ok := m.(*Hello); !ok || h.Version != Version {
		return ErrVersion
	}
	return nil
}
