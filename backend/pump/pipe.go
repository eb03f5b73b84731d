//go:build unix

package pump

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A pipe is the read end of one, in non-blocking mode.
type pipe interface {
	// Control and Read are those of [syscall.RawConn].
	Control(func(fd uintptr)) error
	Read(func(fd uintptr) (done bool)) error

	// SetReadDeadline ends a Read that waits.
	SetReadDeadline(time.Time) error
	Close() error
}

// A polledPipe is one that the runtime's poller knows.
type polledPipe struct {
	syscall.RawConn
	file *os.File
}

func (p polledPipe) SetReadDeadline(t time.Time) error { return p.file.SetReadDeadline(t) }
func (p polledPipe) Close() error                      { return p.file.Close() }

// A drainedPipe is one of which only what is in it is read: to make it known to the
// poller would take longer. No Read of it waits. Whoever closes it must be the only
// one who uses it.
type drainedPipe int

func (p drainedPipe) Control(f func(fd uintptr)) error {
	f(uintptr(p))
	return nil
}

func (p drainedPipe) Read(f func(fd uintptr) bool) error {
	f(uintptr(p))
	return nil
}

func (p drainedPipe) SetReadDeadline(time.Time) error { return nil }
func (p drainedPipe) Close() error                    { return unix.Close(int(p)) }
