package sandbox

import "context"

// A Stream reads the output of one Exec, both streams together, in the order in
// which it came. It is for one goroutine; Close may be called from another.
//
// A reader sets the pace: the command is held while every open reader is 256 KiB
// behind. One that falls that far behind another loses what is not stored, and
// is told so by Chunk.Gap. A single reader loses nothing, until a kill.
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
	Source Source

	// Offset is where Data begins, counted in bytes of this stream.
	Offset int64

	// Data is the bytes, exactly as written; they may end within a character.
	// They are valid until the next call of Next. Data is empty when only a gap
	// is to be told.
	Data []byte

	// Gap is how many bytes of this stream are missing before Offset.
	Gap int64
}

// A Source is one of the two output streams.
type Source int

const (
	Stdout Source = iota
	Stderr
)

// String returns "stdout" or "stderr".
func (s Source) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// Offsets is a position in both output streams, in bytes from their beginning.
type Offsets struct {
	Stdout, Stderr int64
}
