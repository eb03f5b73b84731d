package sandbox

import (
	"context"
	"fmt"
)

// A GapError tells of bytes that a reader of output has missed, since they are not
// stored any more.
type GapError struct {
	Source StreamID `json:"source"` // the stream that they belonged to
	Offset int64    `json:"offset"` // where it goes on, in bytes from its beginning
	Bytes  int64    `json:"bytes"`  // how many are missing before Offset
}

func (e *GapError) Error() string {
	return fmt.Sprintf("%d bytes of %v before offset %d are missing: they are not stored any more", e.Bytes, e.Source, e.Offset)
}

// gapError returns the error of a chunk that is a gap.
func (c Chunk) gapError() error {
	return &GapError{Source: c.Source, Offset: c.Offset, Bytes: c.Gap}
}

// A streamReader is one output stream as an io.ReadCloser.
type streamReader struct {
	chunks *reader
	ctx    context.Context
	rest   []byte // of the last chunk
}

func (r *streamReader) Close() error { return r.chunks.Close() }

func (r *streamReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 && len(p) > 0 {
		c, err := r.chunks.Next(r.ctx)
		if err != nil {
			return 0, err
		}
		if c.Gap > 0 {
			return 0, c.gapError()
		}
		r.rest = c.Data
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
