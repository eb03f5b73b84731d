package local

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// acceptTime bounds the wait until a connection is accepted, where only then it is
// known by whom.
const acceptTime = 5 * time.Second

// listens reports whether the user has the listener that a connection to ip and port
// arrives at.
func listens(user identity, ip net.IP, port int) (bool, error) {
	listeners, err := tcpListeners(uint16(port))
	if err != nil {
		return false, err
	}
	best := listeners.listener(ip)
	return best != nil && best.isOf(user), nil
}

// reaches reports whether the other end of a connection within this machine is the
// user's.
func reaches(ctx context.Context, user identity, conn net.Conn) (bool, error) {
	there := conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	here := conn.LocalAddr().(*net.TCPAddr).AddrPort()
	ctx, cancel := context.WithTimeout(ctx, acceptTime)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		other, err := tcpConnection(there, here)
		switch {
		case err != nil:
			return false, err
		case other == nil:
			return false, nil
		case other.inode != 0:
			return other.isOf(user), nil
		case user.own && other.uid == user.id:
			return true, nil
		case user.own && other.uid != 0:
			return false, nil
		}
		// Nobody has accepted it yet, and older kernels do not say whose it will be.
		// If every listener is the user's, it is the user's: what waited for one that
		// is gone was broken off with it.
		listeners, err := tcpListeners(there.Port())
		if err != nil {
			return false, err
		}
		if listeners.allOf(user) {
			other, err = tcpConnection(there, here)
			return other != nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return false, nil
			}
			return false, ctx.Err()
		}
	}
}

// A socket is a line of the kernel's tables (proc_net_tcp(5)).
type socket struct {
	local, remote netip.AddrPort // an IPv4 address in IPv6 is IPv4
	v6            bool           // of which table
	listening     bool
	uid           uint32
	inode         uint64 // 0 until it is accepted, and when it is closed
}

// isOf reports whether a socket is the user's. A user whom the service shares does not
// have what the service itself has opened.
func (s *socket) isOf(user identity) bool {
	return s.uid == user.id && (user.own || !opened(s.inode))
}

// opened reports whether this process has the socket open.
func opened(inode uint64) bool {
	const dir = "/proc/self/fd/"
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if target, err := os.Readlink(dir + e.Name()); err == nil && target == "socket:["+strconv.FormatUint(inode, 10)+"]" {
			return true
		}
	}
	return err != nil // it cannot be told
}

// sockets are all that have one local port.
type sockets []socket

// listener returns the one that a connection to ip arrives at, or nil. The kernel
// prefers the exact address, and then the address's own family.
func (all sockets) listener(ip net.IP) (best *socket) {
	to, _ := netip.AddrFromSlice(ip)
	to = to.Unmap()
	most := 0
	for n := range all {
		s := &all[n]
		at := s.local.Addr()
		score := 0
		switch {
		case !s.listening:
		case at == to:
			score = 4
		case at.IsUnspecified() && (s.v6 || to.Is4()):
			score = 2
		}
		if score > 0 && s.v6 == to.Is6() {
			score++
		}
		if score > most {
			best, most = s, score
		}
	}
	return best
}

// allOf reports whether there is a listener, and every one is the user's.
func (all sockets) allOf(user identity) bool {
	some := false
	for n := range all {
		if all[n].listening {
			if !all[n].isOf(user) {
				return false
			}
			some = true
		}
	}
	return some
}

// connection returns the end of a connection, or nil.
func (all sockets) connection(local, remote netip.AddrPort) *socket {
	for n := range all {
		if s := &all[n]; !s.listening && s.local == local && s.remote == remote {
			return s
		}
	}
	return nil
}

// tcpListeners returns what listens on a port. Asking the kernel for just that takes
// microseconds; to read its tables may take milliseconds.
func tcpListeners(port uint16) (sockets, error) {
	if all, err := diagListeners(port); err == nil {
		return all, nil
	}
	return tcpSockets(port)
}

// tcpConnection returns the end of a connection, or nil.
func tcpConnection(local, remote netip.AddrPort) (*socket, error) {
	if s, err := diagConnection(local, remote); err == nil {
		return s, nil
	}
	all, err := tcpSockets(local.Port())
	return all.connection(local, remote), err
}

// tcpSockets reads the kernel's tables.
func tcpSockets(port uint16) (all sockets, err error) {
	read := false
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if errors.Is(err, os.ErrNotExist) {
			continue // without IPv6
		}
		if err != nil {
			return nil, err
		}
		read = true
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if s, ok := parseSocket(lines.Text()); ok && s.local.Port() == port {
				s.v6 = strings.HasSuffix(table, "6")
				all = append(all, s)
			}
		}
		f.Close()
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	if !read {
		return nil, errors.New("whose a port is cannot be told without /proc/net/tcp: mount /proc without subset=pid")
	}
	return all, nil
}

func parseSocket(line string) (s socket, ok bool) {
	const local, remote, state, owner, inode, listening = 1, 2, 3, 7, 9, "0A"
	fields := strings.Fields(line)
	if len(fields) <= inode {
		return s, false
	}
	uid, uidErr := strconv.ParseUint(fields[owner], 10, 32)
	number, inodeErr := strconv.ParseUint(fields[inode], 10, 64)
	s.local, ok = address(fields[local])
	there, alsoOK := address(fields[remote])
	s.remote, s.uid, s.inode, s.listening = there, uint32(uid), number, fields[state] == listening
	return s, ok && alsoOK && uidErr == nil && inodeErr == nil
}

// address reads an address as the tables have it: words of four bytes, each
// turned round on the machines that this runs on.
func address(s string) (netip.AddrPort, bool) {
	host, number, _ := strings.Cut(s, ":")
	port, portErr := strconv.ParseUint(number, 16, 16)
	ip, err := hex.DecodeString(host)
	if portErr != nil || err != nil {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(ip, 4) {
		slices.Reverse(word)
	}
	addr, ok := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(addr.Unmap(), uint16(port)), ok
}
