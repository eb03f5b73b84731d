// Package mux makes many streams of the one connection there is into a container.
package mux

import (
	"encoding/binary"
	"io"
	"time"

	"github.com/hashicorp/yamux"
)

// window is how much of a stream is under way at most, in bytes.
const window = 1 << 20

// Client returns the service's side of a connection.
func Client(conn io.ReadWriteCloser) (*yamux.Session, error) {
	return yamux.Client(&joined{ReadWriteCloser: conn}, config())
}

// Server returns the container's side of a connection.
func Server(conn io.ReadWriteCloser) (*yamux.Session, error) {
	return yamux.Server(&joined{ReadWriteCloser: conn}, config())
}

// config leaves it to reading to notice that a connection has ended: an engine
// that is slow, or a container that is paused, is not gone.
func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.AcceptBacklog = 4096
	c.EnableKeepAlive = false
	c.ConnectionWriteTimeout = time.Hour
	c.StreamOpenTimeout = 0
	c.StreamCloseTimeout = time.Minute
	c.MaxStreamWindowSize = window
	c.LogOutput = io.Discard
	return c
}

// joined writes a yamux frame, which comes as its header and its body, at once:
// each write is a message to an engine. It is for one writing goroutine, as a
// session has.
type joined struct {
	io.ReadWriteCloser
	frame   []byte
	missing int // bytes of the body that have not come
}

// The header of a yamux frame: version, type, flags, stream and length.
const (
	headerSize   = 12
	headerType   = 1
	headerLength = 8
	typeData     = 0
)

// Write takes a header, or the body that belongs to the last one.
func (j *joined) Write(p []byte) (int, error) {
	if j.missing == 0 && len(p) == headerSize && p[headerType] == typeData {
		j.missing = int(binary.BigEndian.Uint32(p[headerLength:]))
	} else {
		j.missing -= min(j.missing, len(p))
	}
	if j.missing == 0 && len(j.frame) == 0 {
		return j.ReadWriteCloser.Write(p)
	}
	j.frame = append(j.frame, p...)
	if j.missing > 0 {
		return len(p), nil
	}
	_, err := j.ReadWriteCloser.Write(j.frame)
	j.frame = j.frame[:0]
	return len(p), err
}
