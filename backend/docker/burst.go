package docker

import (
	"io"
	"sync"
)

// How much a burstReader reads at once, in bytes: the large buffer takes several of the
// engine's pieces, which have up to 32 KiB.
const (
	smallRead = 4 << 10
	largeRead = 256 << 10
)

// largeBuffers are those of all burstReaders that are not waiting.
var largeBuffers = sync.Pool{New: func() any { return new([largeRead]byte) }}

// A burstReader is a buffered reader of what comes in bursts. It waits with a small
// buffer, and has a large one as long as there is much to read, so that a sandbox in
// which nothing happens has none. It is for one goroutine.
type burstReader struct {
	from  io.Reader
	small [smallRead]byte
	large *[largeRead]byte // nil while there is little to read
	more  bool             // the last read filled its small buffer
	left  []byte           // what has been read, of one of the buffers
}

// Read returns what is left, and reads when nothing is.
func (b *burstReader) Read(p []byte) (n int, err error) {
	if len(b.left) == 0 {
		if n, err = b.fill(); n == 0 {
			return 0, err
		}
	}
	n = copy(p, b.left)
	if b.left = b.left[n:]; len(b.left) == 0 && b.large != nil {
		largeBuffers.Put(b.large)
		b.large = nil
	}
	return n, nil
}

// fill reads once. An error that comes with bytes comes again with the next read.
func (b *burstReader) fill() (n int, err error) {
	buf := b.small[:]
	if b.more {
		b.large = largeBuffers.Get().(*[largeRead]byte)
		buf = b.large[:]
	}
	n, err = b.from.Read(buf)
	b.more = n == len(buf)
	b.left = buf[:n]
	return n, err
}
