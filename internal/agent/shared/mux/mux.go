// Package mux makes many streams of the one connection there is into a container.
package mux

import (
	"encoding/binary"
	"io"
	"time"

	"github.com/hashicorp/yamux"
)

// How much of a stream is under way at most, in bytes: of output to the service,
// and of input to the container. The latter is yamux's own, which an acceptance
// then does not have to raise.
const (
	outputWindow = 1 << 20
	inputWindow  = 256 << 10
)

// How many streams may be waiting to be accepted. The service's side accepts none: there it
// is how many it opens before it waits for the other side, and a session has room for as
// many pointers from its start.
const (
	opening   = 256
	accepting = 4096
)

// closeTime is after which a stream that was closed on this side gives its memory
// back, whether the other side has closed it or is gone.
const closeTime = 15 * time.Second

// Client returns the service's side of a connection, which opens streams.
func Client(conn io.ReadWriteCloser) (*yamux.Session, error) {
	return yamux.Client(&joined{ReadWriteCloser: conn}, config(outputWindow, opening))
}

// Server returns the container's side of a connection, which accepts streams.
func Server(conn io.ReadWriteCloser) (*yamux.Session, error) {
	return yamux.Server(&joined{ReadWriteCloser: conn}, config(inputWindow, accepting))
}

// config leaves it to reading to notice that a connection has ended: an engine
// that is slow, or a container that is paused, is not gone.
func config(window uint32, backlog int) *yamux.Config {
	c := yamux.DefaultConfig()
	c.AcceptBacklog = backlog
	c.EnableKeepAlive = false
	c.ConnectionWriteTimeout = time.Hour
	c.StreamOpenTimeout = 0
	c.StreamCloseTimeout = closeTime
	c.MaxStreamWindowSize = window
	c.LogOutput = io.Discard
	return c
}

// joined writes a frame's header and body together. yamux writes them apart, and
// each write to the connection is a message that an engine hands on twice. It is
// for one writing goroutine, as a session has.
type joined struct {
	io.ReadWriteCloser
	frame []byte // what has come of the present one
}

// The header of a yamux frame: version, type, flags, stream and length. Only a
// data frame has a body.
const (
	headerSize   = 12
	headerType   = 1
	headerLength = 8
	typeData     = 0
)

// size returns the size of the frame that begins with header.
func size(header []byte) int {
	if header[headerType] != typeData {
		return headerSize
	}
	return headerSize + int(binary.BigEndian.Uint32(header[headerLength:]))
}

// Write takes a header, or the body that belongs to the last one.
func (j *joined) Write(p []byte) (int, error) {
	j.frame = append(j.frame, p...)
	if len(j.frame) < size(j.frame) {
		return len(p), nil
	}
	_, err := j.ReadWriteCloser.Write(j.frame)
	j.frame = j.frame[:0]
	if err != nil {
		return 0, err
	}
	return len(p), nil
}
