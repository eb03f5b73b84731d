//go:build unix

package proc

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A pipe is the read end of one, in non-blocking mode.
type pipe interface {
	syscall.RawConn

	// SetReadDeadline ends a Read that waits.
	SetReadDeadline(time.Time) error
	Close() error
}

// A waited is a pipe that the runtime's poller knows.
type waited struct {
	syscall.RawConn
	file *os.File
}

func (w waited) SetReadDeadline(t time.Time) error { return w.file.SetReadDeadline(t) }
func (w waited) Close() error                      { return w.file.Close() }

// An unwaited is a pipe that is read for what is in it: making it known to the
// poller would take longer. Close must not be called during another method.
type unwaited int

func (u unwaited) Control(f func(fd uintptr)) error {
	f(uintptr(u))
	return nil
}

func (u unwaited) Read(f func(fd uintptr) bool) error {
	if !f(uintptr(u)) {
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (u unwaited) Write(func(fd uintptr) bool) error { return os.ErrInvalid }
func (u unwaited) SetReadDeadline(time.Time) error   { return nil }
func (u unwaited) Close() error                      { return unix.Close(int(u)) }
