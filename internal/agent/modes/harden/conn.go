//go:build linux && (amd64 || arm64)

package harden

import (
	"io"

	"golang.org/x/sys/unix"
)

// A Conn is one end of a connected unix socket, used with blocking system calls:
// the shortest way for a process that waits for nothing else.
type Conn int

// Read reads what has come. It is io.EOF when the other end is gone.
func (c Conn) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(c), p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write writes p.
func (c Conn) Write(p []byte) (int, error) {
	if err := c.Send(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Send writes p, and copies of descriptors with its first byte.
func (c Conn) Send(p []byte, fds ...int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for len(p) > 0 {
		n, err := unix.SendmsgN(int(c), p, rights, nil, unix.MSG_NOSIGNAL)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		p, rights = p[n:], nil
	}
	return nil
}
