// Package relay makes one connection of two.
package relay

import (
	"io"
	"net"
	"sync"
	"syscall"
)

// Both copies what each connection brings to the other, passes on the end of each
// direction by CloseWrite where there is such a method, and returns when both have
// ended. It closes both connections. What is broken off on one side is so on the other:
// one of TCP is reset.
func Both(a, b net.Conn) {
	defer pipes.enter()()
	var both sync.WaitGroup
	both.Go(func() { one(a, b) })
	one(b, a)
	both.Wait()
	a.Close()
	b.Close()
}

// one copies from src to dst.
func one(dst, src net.Conn) {
	if err := pass(dst, src); err != nil {
		for _, c := range []net.Conn{dst, src} {
			if c, ok := c.(interface{ SetLinger(int) error }); ok {
				c.SetLinger(0)
			}
			c.Close()
		}
		return
	}
	if half, ok := dst.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
}

// A Socket is a connection whose bytes the kernel may pass on, on Linux.
type Socket interface {
	net.Conn

	// Raw returns the socket that carries all that is read and written from now on, or
	// nil where there is none, or bytes are to go through Read and Write.
	Raw() syscall.RawConn

	// Carried is told of bytes that went past Read and Write. An error ends the relay.
	Carried(read, written int) error
}

const (
	// pipeSize is how much the kernel passes on at once, in bytes, where the user may have
	// such pipes.
	pipeSize = 1 << 20

	// maxPipes is how many pipes there are at most: the kernel bounds those of a user, and
	// slow readers hold theirs. Who gets none copies.
	maxPipes = 16

	// MaxSpliced is how much is passed on at once by all together, in bytes.
	MaxSpliced = pipeSize * maxPipes
)

// RawOf returns a connection's socket, or nil where it is not one of this machine's alone.
func RawOf(conn net.Conn) syscall.RawConn {
	switch c := conn.(type) {
	case *net.TCPConn:
		raw, _ := c.SyscallConn()
		return raw
	case *net.UnixConn:
		raw, _ := c.SyscallConn()
		return raw
	case Socket:
		return c.Raw()
	}
	return nil
}

// A connection that brings little has a buffer of smallSize, so that a thousand idle ones
// cost little; one that fills it has another while it goes on, or needs none.
const (
	smallSize = 1 << 10
	largeSize = 64 << 10
)

// buffers are of largeSize.
var buffers = sync.Pool{New: func() any { return new([largeSize]byte) }}

// pass copies from src to dst until the end of src.
func pass(dst, src net.Conn) error {
	small := make([]byte, smallSize)
	for busy := false; ; {
		n, err := step(dst, src, small, busy)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		busy = n >= smallSize
	}
}

// step passes on what src brings next, which is much where it is busy.
func step(dst, src net.Conn, small []byte, busy bool) (n int, err error) {
	if !busy {
		return carry(dst, src, small)
	}
	if n, err := spliceStep(dst, src); err != errNoPipe {
		return n, err
	}
	large := buffers.Get().(*[largeSize]byte)
	defer buffers.Put(large)
	return carry(dst, src, large[:])
}

// carry copies what src brings next, through a buffer. An end is told together with the
// last bytes.
func carry(dst io.Writer, src io.Reader, buf []byte) (int, error) {
	n, err := src.Read(buf)
	if n > 0 {
		if _, err := dst.Write(buf[:n]); err != nil {
			return n, err
		}
	}
	return n, err
}

// spliceStep passes on what src brings next without a copy, or returns errNoPipe.
func spliceStep(dst, src net.Conn) (int, error) {
	to, ok := dst.(Socket)
	if !ok {
		return 0, errNoPipe
	}
	from, ok := src.(Socket)
	if !ok {
		return 0, errNoPipe
	}
	for {
		out, in := to.Raw(), from.Raw()
		if out == nil || in == nil {
			return 0, errNoPipe
		}
		n, err := splice(out, in, func(n int) error { return from.Carried(n, 0) })
		if err != nil {
			return n, err
		}
		if n > 0 {
			return n, to.Carried(0, n)
		}
		// It has waited. Meanwhile the two may have come to want copies.
	}
}
