package sandbox

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/sandbox-go/sandbox/backend"
)

// A Stream reads the output of one Exec, both streams together, in the order in
// which it came. It is for one goroutine; Close may be called from another.
//
// A reader sets the pace: the command is held while every open reader is 256 KiB
// behind. One that falls that far behind another loses what is not stored, and
// is told so by Chunk.Gap. A single reader loses nothing, until a kill.
//
// Lines makes lines of a Stream.
//
// Only this package implements Stream. To decorate one, embed it.
type Stream interface {
	// Next returns the next piece of output. It blocks until there is one, and
	// returns io.EOF when the execution is over and all has been read: its
	// record is then final. When the execution's outcome is unknown, or it could
	// not be started, the error is the record's Err instead. When ctx ends, Next
	// returns its error and may be called again: nothing is lost.
	Next(ctx context.Context) (Chunk, error)

	// Close ends the reading. It does not end the command. It may be called again.
	Close() error

	sealed()
}

// A Chunk is a piece of one output stream.
type Chunk struct {
	// Source is the stream that the bytes belong to.
	Source StreamID `json:"source"`

	// Offset is where Data begins, counted in bytes of this stream.
	Offset int64 `json:"offset"`

	// Data is the bytes, exactly as written; they may end within a character.
	// They are valid until the next call of Next, and must not be modified.
	Data []byte `json:"data,omitempty"`

	// Gap is how many bytes of this stream are missing before Offset. A chunk has
	// either Data or a Gap.
	Gap int64 `json:"gap,omitempty"`
}

// A StreamID is one of the two output streams.
type StreamID int

const (
	Stdout StreamID = iota
	Stderr
)

var streamIDs = []string{"stdout", "stderr"}

// MarshalText returns what String does.
func (s StreamID) MarshalText() ([]byte, error) { return marshalWord(int(s), streamIDs) }

// UnmarshalText reads what MarshalText returns.
func (s *StreamID) UnmarshalText(text []byte) error { return unmarshalWord((*int)(s), text, streamIDs) }

// String returns "stdout" or "stderr".
func (s StreamID) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// Offsets is a position in both output streams, in bytes from their beginning. The
// zero value is the beginning.
type Offsets struct {
	Stdout int64 `json:"stdout"`
	Stderr int64 `json:"stderr"`
}

func (o *Offsets) at(s StreamID) *int64 {
	if s == Stderr {
		return &o.Stderr
	}
	return &o.Stdout
}

// maxChunk bounds Chunk.Data.
const maxChunk = 64 << 10

// A reader is a Stream.
type reader struct {
	o    *output
	wake chan struct{} // of capacity 1: there may be something new
	buf  []byte        // the last Chunk's data

	// What it reads by itself, and the context that interrupts it: for the goroutine
	// of Next.
	pulling       StreamID
	pulledChunk   Chunk
	watched       <-chan struct{}
	watchedSource backend.Source
	stopWatching  atomic.Pointer[func() bool]

	// Guarded by o.mu.
	pos     Offsets // of the next byte to deliver
	order   int     // no segment of o.order before this one is still to be delivered
	segment int     // the number of the window's segment to go on with
	closed  bool

	// Set when it is opened.
	skips    [2]bool // by source: streams that it does not read
	lossless bool    // it holds the command, however fast the others are
}

// open adds a reader that begins at from.
func (o *output) open(from Offsets) (*reader, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.checkLocked(from); err != nil {
		return nil, err
	}
	return o.addLocked(&reader{pos: from}), nil
}

// openOne adds a reader of one stream.
func (o *output) openOne(s StreamID, from int64) (*reader, error) {
	if s != Stdout && s != Stderr {
		return nil, invalidf(FieldSource, "%d is neither Stdout nor Stderr", int(s))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	r := &reader{pos: o.totalLocked(), skips: [2]bool{s != Stdout, s != Stderr}}
	*r.pos.at(s) = from
	if err := o.checkLocked(r.pos); err != nil {
		return nil, err
	}
	return o.addLocked(r), nil
}

// openLossless adds a reader that begins at the first byte.
func (o *output) openLossless() *reader {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.addLocked(&reader{lossless: true})
}

// since returns what is kept from there on, and where it ends. It is no reader that
// the command waits for.
func (o *output) since(from Offsets) ([]Chunk, Offsets, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.checkLocked(from); err != nil {
		return nil, from, err
	}
	var chunks []Chunk
	r := &reader{o: o, pos: from}
	for {
		c, ok := r.nextLocked()
		if !ok {
			return chunks, r.pos, nil
		}
		chunks = append(chunks, c)
		r.buf = nil // it is c's
	}
}

// checkLocked says what is wrong with offsets to read from.
func (o *output) checkLocked(from Offsets) error {
	for s := range o.streams {
		if off, total := *from.at(StreamID(s)), o.streams[s].total; off < 0 || off > total {
			return invalidf(FieldOffsets, "offset %d of %v is not between 0 and its current end, %d", off, StreamID(s), total)
		}
	}
	return nil
}

func (o *output) addLocked(r *reader) *reader {
	if len(o.readers) == 0 {
		o.window.limit = windowSize
	}
	o.giveBackLocked()
	r.o, r.wake = o, make(chan struct{}, 1)
	o.readers = append(o.readers, r)
	return r
}

func (r *reader) Next(ctx context.Context) (Chunk, error) {
	for {
		c, ok, source, err := r.take(ctx)
		if err != nil {
			r.unwatch()
		}
		if ok || err != nil {
			return c, err
		}
		if source != nil {
			if c, ok := r.pull(ctx, source); ok {
				return c, nil
			}
			if err := ctx.Err(); err != nil {
				return Chunk{}, err
			}
			continue
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return Chunk{}, ctx.Err()
		}
	}
}

func (r *reader) Close() error {
	defer r.unwatch()
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	r.closed = true
	r.o.giveBackLocked()
	r.o.readers = slices.DeleteFunc(r.o.readers, func(other *reader) bool { return other == r })
	if len(r.o.readers) == 0 {
		r.o.window, r.o.windowSegments = ringBuffer{}, segments{}
	}
	r.o.room.Broadcast()
	r.wakeUp()
	return nil
}

func (r *reader) sealed() {}

func (r *reader) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take returns the next chunk, or how it ended, or false when there is none yet. Then a
// source that is not nil is to be read for it; there is none when ctx has ended.
func (r *reader) take(ctx context.Context) (Chunk, bool, backend.Source, error) {
	o := r.o
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.closed {
		return Chunk{}, false, nil, fmt.Errorf("stream: %w", ErrClosed)
	}
	if c, ok := r.nextLocked(); ok {
		o.room.Broadcast()
		return c, true, nil, nil
	}
	if !o.over || !o.final && !r.lossless { // the record waits for the lossless ones
		return Chunk{}, false, r.pullLocked(ctx), nil
	}
	if o.err != nil {
		return Chunk{}, false, nil, o.err
	}
	return Chunk{}, false, nil, io.EOF
}

// nextLocked takes the next chunk: of what is older than the window first, which
// is the heads, then the tails, with gaps told where neither has it.
func (r *reader) nextLocked() (Chunk, bool) {
	window := r.o.windowSegments.start(r.o.totalLocked())
	if c, ok := r.fromHeadsLocked(window); ok {
		return c, true
	}
	for s := range r.o.streams {
		if c, ok := r.fromTailLocked(StreamID(s), *window.at(StreamID(s))); ok {
			return c, true
		}
	}
	return r.fromWindowLocked()
}

func (r *reader) fromHeadsLocked(end Offsets) (Chunk, bool) {
	list := r.o.order.list
	for i := r.order; i < len(list); i++ {
		s, pos := list[i].source, r.pos.at(list[i].source)
		head := r.o.streams[s].head
		from := max(*pos, list[i].off)
		to := min(list[i].off+int64(list[i].n), int64(len(head)), *end.at(s), from+maxChunk)
		if from < to {
			*pos = to
			return Chunk{Source: s, Offset: from, Data: head[from:to:to]}, true
		}
		// Only the last two segments can still grow.
		if i == r.order && i < len(list)-2 && *pos >= list[i].off+int64(list[i].n) {
			r.order++
		}
	}
	return Chunk{}, false
}

func (r *reader) fromTailLocked(s StreamID, end int64) (Chunk, bool) {
	st, pos := &r.o.streams[s], r.pos.at(s)
	if *pos >= end {
		return Chunk{}, false
	}
	from := *pos
	if start := min(st.tailStart(), end); from < start {
		*pos = start
		return Chunk{Source: s, Offset: start, Gap: start - from}, true
	}
	*pos = min(end, from+maxChunk)
	r.buf = st.tail.appendTo(r.buf[:0], from, *pos)
	return Chunk{Source: s, Offset: from, Data: r.buf}, true
}

func (r *reader) fromWindowLocked() (Chunk, bool) {
	segs := &r.o.windowSegments
	for r.segment = max(r.segment, segs.dropped); r.segment < segs.next(); r.segment++ {
		seg := segs.list[r.segment-segs.dropped]
		pos := r.pos.at(seg.source)
		if n := min(seg.off+int64(seg.n)-*pos, maxChunk); n > 0 {
			from := *pos
			*pos += n
			at := seg.at + from - seg.off
			r.buf = r.o.window.appendTo(r.buf[:0], at, at+n)
			return Chunk{Source: seg.source, Offset: from, Data: r.buf}, true
		}
		if r.segment == segs.next()-1 {
			break // it may still grow
		}
	}
	return Chunk{}, false
}

// behindLocked returns how many bytes r has still to read.
func (r *reader) behindLocked() int64 {
	total := r.o.totalLocked()
	return total.Stdout - r.pos.Stdout + total.Stderr - r.pos.Stderr
}

func (o *output) totalLocked() Offsets {
	return Offsets{Stdout: o.streams[Stdout].total, Stderr: o.streams[Stderr].total}
}
