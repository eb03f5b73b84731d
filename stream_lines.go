package sandbox

import (
	"bytes"
	"context"
	"io"
	"iter"

	"github.com/sandbox-go/sandbox/internal/text"
)

// maxLine bounds Line.Text.
const maxLine = 64 << 10

// A Line is a line of one output stream.
type Line struct {
	// Source is the stream that the line belongs to.
	Source StreamID `json:"source"`

	// Text is the line without its newline, and without a carriage return before
	// that, otherwise exactly as written. It has at most 64 KiB.
	Text string `json:"text"`

	// Partial is set when no newline follows Text: the line is longer than Text may
	// be, and its next piece is the next Line of this stream, or a gap or the end of
	// the output follows.
	Partial bool `json:"partial,omitempty"`

	// Offset is where Text begins, and End is the first byte after the line and its
	// newline, counted in bytes of this stream: where a Stream that is opened anew
	// goes on.
	Offset int64 `json:"offset"`
	End    int64 `json:"end"`
}

// Lines returns the lines of s as they come: each when its newline has come, or at the
// end of the output, so those of both streams in the order in which they end. A
// *GapError says that bytes are missing; after it the iteration may go on. Any other
// error is the last: that of ctx or of Next. At io.EOF the iteration ends without one.
//
// The caller closes s, and reads it in no other way meanwhile. The iterator can be used
// once. A loop that breaks off loses what s has delivered of lines that it has not seen.
func Lines(ctx context.Context, s Stream) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		l := lines{yield: yield}
		for {
			c, err := s.Next(ctx)
			switch {
			case err != nil:
				if l.flush(Stdout) && l.flush(Stderr) && err != io.EOF {
					yield(Line{}, err)
				}
				return
			case c.Gap > 0:
				if !l.flush(c.Source) || !yield(Line{}, c.gapError()) {
					return
				}
			case !l.add(c):
				return
			}
		}
	}
}

// lines makes lines of chunks. Its methods report whether more is wanted.
type lines struct {
	yield func(Line, error) bool
	held  [2]struct { // by source: the beginning of a line
		text []byte
		off  int64 // of text
	}
}

// add yields the lines that end in c, and holds what follows them.
func (l *lines) add(c Chunk) bool {
	held := &l.held[c.Source]
	if len(held.text) == 0 {
		held.off = c.Offset
	}
	for data := c.Data; len(data) > 0; {
		room := maxLine - len(held.text)
		n := min(room, len(data))
		end := bytes.IndexByte(data[:min(room+1, len(data))], '\n')
		if end >= 0 {
			n = end
		}
		held.text = append(held.text, data[:n]...)
		data = data[n:]
		switch {
		case end >= 0:
			data = data[1:]
			if !l.yieldHeld(c.Source, len(held.text), 1) {
				return false
			}
		case len(data) > 0: // the line is too long
			if !l.yieldHeld(c.Source, text.Whole(held.text), 0) {
				return false
			}
		}
	}
	return true
}

// flush yields what is held.
func (l *lines) flush(s StreamID) bool {
	n := len(l.held[s].text)
	return n == 0 || l.yieldHeld(s, n, 0)
}

// yieldHeld yields the first n bytes that are held; newline is 1 when one follows, or 0.
func (l *lines) yieldHeld(s StreamID, n, newline int) bool {
	held := &l.held[s]
	line := Line{Source: s, Partial: newline == 0, Offset: held.off, End: held.off + int64(n+newline)}
	if text := held.text[:n]; line.Partial {
		line.Text = string(text)
	} else {
		line.Text = string(bytes.TrimSuffix(text, []byte{'\r'}))
	}
	held.text = append(held.text[:0], held.text[n:]...)
	held.off = line.End
	return l.yield(line, nil)
}
