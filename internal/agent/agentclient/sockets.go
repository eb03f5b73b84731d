package agentclient

import (
	"net"
	"sync"
	"syscall"
)

// sockets are connections into a sandbox that are closed with it: each keeps the sandbox's
// network, also when nothing else is left there. The methods may be called concurrently.
type sockets struct {
	mu     sync.Mutex // guards what follows
	open   map[*socket]struct{}
	closed bool
}

// A socket is one of them.
type socket struct {
	*net.TCPConn
	of *sockets
}

// add returns conn as one of them.
func (all *sockets) add(conn *net.TCPConn) net.Conn {
	s := &socket{conn, all}
	all.mu.Lock()
	closed := all.closed
	if all.open == nil {
		all.open = make(map[*socket]struct{})
	}
	if !closed {
		all.open[s] = struct{}{}
	}
	all.mu.Unlock()
	if closed {
		conn.Close()
	}
	return s
}

// Close implements [net.Conn].
func (s *socket) Close() error {
	s.of.mu.Lock()
	delete(s.of.open, s)
	s.of.mu.Unlock()
	return s.TCPConn.Close()
}

// Raw implements relay.Socket.
func (s *socket) Raw() syscall.RawConn {
	raw, _ := s.SyscallConn()
	return raw
}

// Carried implements relay.Socket.
func (s *socket) Carried(int, int) error { return nil }

// close closes those that are open, and those that are added.
func (all *sockets) close() {
	all.mu.Lock()
	open := all.open
	all.open, all.closed = nil, true
	all.mu.Unlock()
	for s := range open {
		s.TCPConn.Close()
	}
}
