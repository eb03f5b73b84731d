// Package relay makes one connection of two.
package relay

import (
	"io"
	"net"
	"sync"
)

// Both copies what each connection brings to the other, passes on the end of each
// direction by CloseWrite where there is such a method, and returns when both have
// ended. It closes both connections. What is broken off on one side is so on the other:
// one of TCP is reset.
func Both(a, b net.Conn) {
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

// A connection that brings little has a buffer of smallSize, so that a thousand idle ones
// cost little; one that fills it has another while it goes on.
const (
	smallSize = 1 << 10
	largeSize = 64 << 10
)

// buffers are of largeSize.
var buffers = sync.Pool{New: func() any { return new([largeSize]byte) }}

// pass copies from src to dst until the end of src.
func pass(dst io.Writer, src io.Reader) error {
	var large *[largeSize]byte
	defer func() {
		if large != nil {
			buffers.Put(large)
		}
	}()
	small := make([]byte, smallSize)
	buf := small
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case n == smallSize && large == nil:
			large = buffers.Get().(*[largeSize]byte)
			buf = large[:]
		case n < smallSize && large != nil:
			buffers.Put(large)
			large, buf = nil, small
		}
	}
}
