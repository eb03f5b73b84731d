// Package mux makes many streams of the one connection there is into a container.
package mux

import (
	"encoding/binary"
	"io"
	"sync"
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

// closeTime is after which a stream that was closed on this side gives its memory
// back, whether the other side has closed it or is gone.
const closeTime = 15 * time.Second

// Client returns the service's side of a connection, which opens streams.
func Client(conn io.ReadWriteCloser) (*yamux.Session, error) {
	return yamux.Client(join(conn, false), config(outputWindow))
}

// Server returns the container's side of a connection, which accepts streams. What
// it says about them without any data goes to the client with the next that has
// some: nobody waits for it.
func Server(conn io.ReadWriteCloser) (*yamux.Session, error) {
	return yamux.Server(join(conn, true), config(inputWindow))
}

// config leaves it to reading to notice that a connection has ended: an engine
// that is slow, or a container that is paused, is not gone.
func config(window uint32) *yamux.Config {
	c := yamux.DefaultConfig()
	c.AcceptBacklog = 4096
	c.EnableKeepAlive = false
	c.ConnectionWriteTimeout = time.Hour
	c.StreamOpenTimeout = 0
	c.StreamCloseTimeout = closeTime
	c.MaxStreamWindowSize = window
	c.LogOutput = io.Discard
	return c
}

// joined writes together what comes together: yamux writes each frame by itself,
// its header and its body apart, and each write to the connection is a message
// that an engine hands on twice. It is for one writing goroutine, as a session
// has.
type joined struct {
	io.ReadWriteCloser
	patient bool // acceptances and ends of streams are kept for the next frame
	missing int  // bytes of a frame's body that have not come; for the writer

	mu      sync.Mutex // guards what follows
	changed *sync.Cond
	frames  []byte // what is to be written next
	whole   int    // how much of it is whole frames
	due     bool   // it is not to be kept
	err     error  // of writing
}

// join returns conn with a goroutine that writes to it until it is closed.
func join(conn io.ReadWriteCloser, patient bool) *joined {
	j := &joined{ReadWriteCloser: conn, patient: patient}
	j.changed = sync.NewCond(&j.mu)
	go j.flush()
	return j
}

// maxWaiting is how much waits to be written, in bytes, before the writer does.
const maxWaiting = 256 << 10

// The header of a yamux frame: version, type, flags, stream and length.
const (
	headerSize   = 12
	headerType   = 1
	headerFlags  = 2
	headerLength = 8
	typeData     = 0
	typeWindow   = 1
	flagAccept   = 2
	flagEnd      = 4
)

// empty reports whether a header is of a frame that only accepts or ends a stream.
func empty(header []byte) bool {
	return header[headerType] == typeWindow &&
		binary.BigEndian.Uint16(header[headerFlags:])&(flagAccept|flagEnd) != 0 &&
		binary.BigEndian.Uint32(header[headerLength:]) == 0
}

// Write takes a header, or the body that belongs to the last one.
func (j *joined) Write(p []byte) (int, error) {
	keep := false
	switch {
	case j.missing > 0:
		j.missing -= min(j.missing, len(p))
	case len(p) == headerSize && p[headerType] == typeData:
		j.missing = int(binary.BigEndian.Uint32(p[headerLength:]))
	case len(p) == headerSize:
		keep = j.patient && empty(p)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.frames) > maxWaiting && j.due && j.err == nil {
		j.changed.Wait()
	}
	if j.err != nil {
		return 0, j.err
	}
	j.frames = append(j.frames, p...)
	if j.missing == 0 {
		j.whole = len(j.frames)
		j.due = j.due || !keep
		j.changed.Broadcast()
	}
	return len(p), nil
}

// flush writes whole frames, all that there are at once.
func (j *joined) flush() {
	var b []byte
	for {
		j.mu.Lock()
		for !j.due && j.err == nil {
			j.changed.Wait()
		}
		if j.err != nil {
			j.mu.Unlock()
			return
		}
		b, j.frames = append(b[:0], j.frames[:j.whole]...), append(j.frames[:0], j.frames[j.whole:]...)
		j.whole, j.due = 0, false
		j.changed.Broadcast()
		j.mu.Unlock()
		if _, err := j.ReadWriteCloser.Write(b); err != nil {
			j.end(err)
		}
	}
}

// Close ends the writing and closes the connection.
func (j *joined) Close() error {
	j.end(io.ErrClosedPipe)
	return j.ReadWriteCloser.Close()
}

func (j *joined) end(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = err
	}
	j.changed.Broadcast()
}
