package docker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/moby/moby/client"
)

const (
	execHeader = 8       // bytes before each piece: the stream, three zeros, the size
	execStdout = 1       // the number of stdout
	maxStderr  = 4 << 10 // how much of stderr is kept
)

// An execStream is the stdin and stdout of an exec as one connection. The engine
// sends stdout and stderr together, in pieces that each have a header; stdin goes
// as it is. One goroutine may read while others write.
type execStream struct {
	net.Conn
	r    burstReader
	left int // bytes of the present piece of stdout that have not been read

	mu     sync.Mutex // guards stderr
	stderr []byte
}

func newExecStream(a client.ExecAttachResult) *execStream {
	return &execStream{Conn: a.Conn, r: burstReader{from: a.Reader}}
}

// Read reads from the exec's stdout.
func (s *execStream) Read(p []byte) (int, error) {
	for s.left == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n, err := s.r.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// next reads the header of the next piece, and the piece too unless it is of
// stdout.
func (s *execStream) next() error {
	var header [execHeader]byte
	if _, err := io.ReadFull(&s.r, header[:]); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(header[4:]))
	if header[0] == execStdout {
		s.left = size
		return nil
	}
	kept := make([]byte, min(size, maxStderr))
	if _, err := io.ReadFull(&s.r, kept); err != nil {
		return err
	}
	s.mu.Lock()
	s.stderr = append(s.stderr, kept[:min(len(kept), maxStderr-len(s.stderr))]...)
	s.mu.Unlock()
	_, err := io.CopyN(io.Discard, &s.r, int64(size-len(kept)))
	return err
}

// stderrText returns what has come on stderr, for the end of an error's text.
func (s *execStream) stderrText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := bytes.TrimSpace(s.stderr); len(text) > 0 {
		return fmt.Sprintf(": it said %q", text)
	}
	return ""
}
