//go:build linux && (amd64 || arm64)

package pool

import (
	"bufio"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// A supervisor is a socket to one. It is the peer.Link of its commands.
type supervisor struct {
	conn     *net.UnixConn
	number   int // as Spawner knows it
	rights   Rights
	buffered *bufio.Reader // of what comes
	reader   *wire.Reader  // of buffered, for one goroutine: whoever has the supervisor

	idleSince time.Time // when it was given back; guarded by Pool.mu
}

func newSupervisor(conn *net.UnixConn, number int) *supervisor {
	s := &supervisor{conn: conn, number: number}
	s.rights.conn = conn
	s.buffered = bufio.NewReader(&s.rights)
	s.reader = wire.NewReader(s.buffered)
	return s
}

// Send implements [peer.Link].
func (s *supervisor) Send(m wire.Message) error { return wire.Write(s.conn, m) }

// Abort implements [peer.Link].
func (s *supervisor) Abort() { s.conn.Close() }

// Rights reads from a unix socket and collects the descriptors that come with
// the bytes. It is for one goroutine.
type Rights struct {
	conn *net.UnixConn
	oob  [128]byte
	fds  []int
}

// NewRights returns a Rights that reads conn.
func NewRights(conn *net.UnixConn) *Rights { return &Rights{conn: conn} }

// Read reads bytes, and no further than the next that come with descriptors.
func (r *Rights) Read(p []byte) (int, error) {
	n, oobn, _, _, err := r.conn.ReadMsgUnix(p, r.oob[:])
	if oobn > 0 {
		r.collect(r.oob[:oobn])
	}
	return max(n, 0), err
}

func (r *Rights) collect(oob []byte) {
	ms, _ := unix.ParseSocketControlMessage(oob)
	for i := range ms {
		fds, _ := unix.ParseUnixRights(&ms[i])
		r.fds = append(r.fds, fds...)
	}
}

// Take returns the first n descriptors that came and were not taken, or nil when
// there are fewer.
func (r *Rights) Take(n int) []int {
	if len(r.fds) < n {
		return nil
	}
	fds := r.fds[:n:n]
	r.fds = r.fds[n:]
	return fds
}

// Close closes the descriptors that were not taken.
func (r *Rights) Close() {
	for _, fd := range r.fds {
		unix.Close(fd)
	}
	r.fds = nil
}
