package relay

import (
	"errors"
	"net"
	"time"
)

// acceptPause is how long Accept waits when there is no descriptor for a connection.
const acceptPause = 10 * time.Millisecond

// Accept calls accept until that returns a connection, or says that what it accepts from is
// closed, or done is closed, which may be nil.
func Accept(done <-chan struct{}, accept func() (net.Conn, error)) (net.Conn, error) {
	for {
		conn, err := accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		select {
		case <-time.After(acceptPause):
		case <-done:
			return nil, err
		}
	}
}
