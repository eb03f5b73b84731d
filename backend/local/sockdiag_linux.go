package local

import (
	"encoding/binary"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// The layout of a request and of an answer of sock_diag(7), for sockets of the Internet.
const (
	diagRequestSize = 56
	diagAnswerSize  = 72
	diagID          = 8 // where the socket's identity begins in a request
	diagAnswerID    = 4 // and in an answer
	diagUID         = 64
	diagInode       = 68
	tcpListen       = 10 // of the kernel's enum of states
)

// diagListeners returns what listens on a port.
func diagListeners(port uint16) (all sockets, err error) {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		request := make([]byte, diagRequestSize)
		request[0], request[1] = family, unix.IPPROTO_TCP
		binary.NativeEndian.PutUint32(request[4:], 1<<tcpListen)
		binary.BigEndian.PutUint16(request[diagID:], port)
		found, err := diag(request, unix.NLM_F_DUMP)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			if s.listening && s.local.Port() == port {
				all = append(all, s)
			}
		}
	}
	return all, nil
}

// diagConnection returns the end of a connection, or nil.
func diagConnection(local, remote netip.AddrPort) (*socket, error) {
	request := make([]byte, diagRequestSize)
	request[0], request[1] = unix.AF_INET, unix.IPPROTO_TCP
	if local.Addr().Is6() {
		request[0] = unix.AF_INET6
	}
	binary.NativeEndian.PutUint32(request[4:], ^uint32(0)) // in every state
	id := request[diagID:]
	binary.BigEndian.PutUint16(id, local.Port())
	binary.BigEndian.PutUint16(id[2:], remote.Port())
	copy(id[4:20], local.Addr().AsSlice())
	copy(id[20:36], remote.Addr().AsSlice())
	binary.NativeEndian.PutUint64(id[40:], ^uint64(0)) // any cookie
	found, err := diag(request, 0)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return sockets(found).connection(local, remote), nil
}

// diag asks the kernel for sockets.
func diag(request []byte, flags uint16) (found []socket, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return nil, err
	}
	message := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(request))
	binary.NativeEndian.PutUint32(message, uint32(cap(message)))
	binary.NativeEndian.PutUint16(message[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(message[6:], unix.NLM_F_REQUEST|flags)
	if err := unix.Sendto(fd, append(message, request...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	buf := make([]byte, os.Getpagesize()*8)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		for rest := buf[:n]; len(rest) >= unix.NLMSG_HDRLEN; {
			size := int(binary.NativeEndian.Uint32(rest))
			if size < unix.NLMSG_HDRLEN || size > len(rest) {
				return nil, unix.EBADMSG
			}
			body := rest[unix.NLMSG_HDRLEN:size]
			switch binary.NativeEndian.Uint16(rest[4:]) {
			case unix.NLMSG_DONE:
				return found, nil
			case unix.NLMSG_ERROR:
				if len(body) < 4 {
					return nil, unix.EBADMSG
				}
				return nil, unix.Errno(-int32(binary.NativeEndian.Uint32(body)))
			default:
				if len(body) < diagAnswerSize {
					return nil, unix.EBADMSG
				}
				found = append(found, diagSocket(body))
			}
			rest = rest[min((size+3)&^3, len(rest)):]
		}
		if flags&unix.NLM_F_DUMP == 0 {
			return found, nil
		}
	}
}

// diagSocket reads an answer.
func diagSocket(b []byte) socket {
	id := b[diagAnswerID:]
	end := func(port, addr []byte) netip.AddrPort {
		ip := netip.AddrFrom4([4]byte(addr[:4]))
		if b[0] == unix.AF_INET6 {
			ip = netip.AddrFrom16([16]byte(addr[:16])).Unmap()
		}
		return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(port))
	}
	return socket{
		local:     end(id, id[4:]),
		remote:    end(id[2:], id[20:]),
		v6:        b[0] == unix.AF_INET6,
		listening: b[1] == tcpListen,
		uid:       binary.NativeEndian.Uint32(b[diagUID:]),
		inode:     uint64(binary.NativeEndian.Uint32(b[diagInode:])),
	}
}
