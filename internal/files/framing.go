package files

import (
	"encoding/binary"
	"errors"
	"io"
)

// Content goes to the process in frames, each a length of four bytes, big-endian,
// and so many bytes; one of length 0 is the end. So an input that ended too early
// cannot be taken for a whole one.
const maxFrame = 32 << 10

var errIncomplete = errors.New("the content ended before its end")

// writeFrames writes all that r has to w.
func writeFrames(w io.Writer, r io.Reader) error {
	frame := make([]byte, 4+maxFrame)
	for {
		n, err := r.Read(frame[4:])
		if n > 0 {
			binary.BigEndian.PutUint32(frame, uint32(n))
			if _, err := w.Write(frame[:4+n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			_, err := w.Write(make([]byte, 4))
			return err
		}
		if err != nil {
			return err
		}
	}
}

// A frameReader reads what writeFrames wrote.
type frameReader struct {
	r    io.Reader
	left int // of the present frame
	err  error
}

func (f *frameReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if f.left == 0 && f.err == nil {
		f.err = f.next()
	}
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.r.Read(p[:min(len(p), f.left)])
	f.left -= n
	if err != nil && n == 0 {
		f.err = errIncomplete
	}
	return n, f.err
}

// next reads a frame's length; io.EOF is the end of the content.
func (f *frameReader) next() error {
	var length [4]byte
	if _, err := io.ReadFull(f.r, length[:]); err != nil {
		return errIncomplete
	}
	f.left = int(binary.BigEndian.Uint32(length[:]))
	if f.left == 0 {
		return io.EOF
	}
	return nil
}
