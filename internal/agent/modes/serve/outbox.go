//go:build linux && (amd64 || arm64)

package serve

import (
	"io"
	"sync"
)

// maxHeld is how much an outbox keeps, in bytes.
const maxHeld = 32 << 10

// An outbox writes what is said about an execution. It may be told to hold it, so
// that what is said at the same time goes in one write: each is a message that an
// engine hands on twice. Its methods may be called concurrently.
type outbox struct {
	w io.Writer

	mu      sync.Mutex // guards what follows
	holding bool
	held    []byte
}

// hold keeps what is said until release, or until it is much.
func (o *outbox) hold() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.holding = true
}

// Write writes one or more frames.
func (o *outbox) Write(frames []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.holding && len(o.held)+len(frames) <= maxHeld {
		o.held = append(o.held, frames...)
		return len(frames), nil
	}
	if err := o.releaseLocked(); err != nil {
		return 0, err
	}
	return o.w.Write(frames)
}

// release writes what is held, and holds nothing more.
func (o *outbox) release() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.releaseLocked()
}

func (o *outbox) releaseLocked() error {
	held := o.held
	o.holding, o.held = false, nil
	if len(held) == 0 {
		return nil
	}
	_, err := o.w.Write(held)
	return err
}
