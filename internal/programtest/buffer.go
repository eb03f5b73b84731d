package programtest

import (
	"bytes"
	"sync"
)

// A Buffer keeps what is written to it. Its methods may be called concurrently.
type Buffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
