// Package framing says in-band where content ends, so that one that was broken off
// cannot be taken for a whole one, and the end of one direction of a connection does
// not depend on what the connection does with it.
package framing

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
)

// maxFrame bounds the content of one frame, which is a length of four bytes,
// big-endian, and so many bytes. One of length 0 is the end.
const maxFrame = 64 << 10

// ErrIncomplete: the content ended before its end.
var ErrIncomplete = errors.New("the content ended before its end")

// Copy writes all that r has to w, as frames, and then the end.
func Copy(w io.Writer, r io.Reader) error {
	if _, err := io.Copy(NewWriter(w), onlyReader{r}); err != nil {
		return err
	}
	return End(w)
}

// onlyReader hides a WriterTo, whose pieces might be small.
type onlyReader struct{ io.Reader }

// End writes the end.
func End(w io.Writer) error {
	_, err := w.Write(make([]byte, 4))
	return err
}

// A Reader reads what Copy has written. It is for one goroutine.
type Reader struct {
	r      io.Reader
	header [4]byte
	got    int   // bytes of the present header
	left   int   // bytes of the present frame's content
	end    error // once there is nothing more
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Read returns io.EOF at the end, and ErrIncomplete where r ends without one. After
// any other error of r it may be called again.
func (f *Reader) Read(p []byte) (int, error) {
	for f.left == 0 && f.end == nil && len(p) > 0 {
		n, err := f.r.Read(f.header[f.got:])
		f.got += n
		if f.got == len(f.header) {
			f.next()
		} else if err != nil {
			return 0, f.broken(err)
		}
	}
	if f.end != nil || len(p) == 0 {
		return 0, f.end
	}
	n, err := f.r.Read(p[:min(len(p), f.left)])
	f.left -= n
	if n > 0 || err == nil {
		return n, nil
	}
	return 0, f.broken(err)
}

// next begins the frame whose header has been read.
func (f *Reader) next() {
	f.got, f.left = 0, int(binary.BigEndian.Uint32(f.header[:]))
	if f.left == 0 {
		f.end = io.EOF
	}
}

func (f *Reader) broken(err error) error {
	if err == io.EOF {
		f.end = ErrIncomplete
		return f.end
	}
	return err
}

// A Writer writes frames. It is for one goroutine at a time.
type Writer struct{ w io.Writer }

// frames are buffers for Write: a connection that is idle has none.
var frames = sync.Pool{New: func() any { return new([4 + maxFrame]byte) }}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// ReadFrom implements [io.ReaderFrom]. What a Read brings is one frame, in one write, and is
// copied nowhere else.
func (f *Writer) ReadFrom(r io.Reader) (n int64, err error) {
	frame := frames.Get().(*[4 + maxFrame]byte)
	defer frames.Put(frame)
	for {
		got, err := r.Read(frame[4:])
		n += int64(got)
		if got > 0 {
			binary.BigEndian.PutUint32(frame[:], uint32(got))
			if _, err := f.w.Write(frame[:4+got]); err != nil {
				return n - int64(got), err
			}
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// Write writes p as frames, each in one write.
func (f *Writer) Write(p []byte) (n int, err error) {
	frame := frames.Get().(*[4 + maxFrame]byte)
	defer frames.Put(frame)
	for len(p) > 0 {
		took := copy(frame[4:], p)
		binary.BigEndian.PutUint32(frame[:], uint32(took))
		if _, err := f.w.Write(frame[:4+took]); err != nil {
			return n, err
		}
		n += took
		p = p[took:]
	}
	return n, nil
}
