//go:build linux

package escapetest

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// socketAttacks are about networks and sockets.
func socketAttacks() []Attack {
	return []Attack{{
		Name: "sockets-with-names-are-apart", Rule: "A command cannot connect to a socket of the machine that has a name and no file.", promise: network,
		try: func(s *scene) error { return connects("unix", "@"+s.Abstract[1:]) },
	}, {
		Name: "sockets-with-files-are-apart", Rule: "A command cannot connect to a socket of the machine that has a file.", promise: files,
		try: func(s *scene) error { return connects("unix", s.Socket) },
	}, {
		Name: "the-services-ports-are-apart", Rule: "A command cannot connect to what listens on the machine's loopback addresses.", promise: network,
		try: func(s *scene) error {
			for _, host := range []string{"127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "::ffff:127.0.0.1"} {
				if err := connects("tcp", net.JoinHostPort(host, strconv.Itoa(s.Port))); err != nil {
					return err
				}
			}
			return nil
		},
	}, {
		Name: "other-networks-are-not-reached", Rule: "A command without a network reaches no address but loopback.", promise: network,
		try: func(*scene) error {
			interfaces, _ := net.Interfaces()
			for _, i := range interfaces {
				if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
					return fmt.Errorf("there is an interface %s", i.Name)
				}
			}
			for _, host := range []string{"1.1.1.1", "10.0.0.1", "169.254.169.254", "172.17.0.1", "192.168.0.1"} {
				if err := connects("udp", net.JoinHostPort(host, "53")); err != nil { // sends nothing
					return err
				}
			}
			return nil
		},
	}, {
		Name: "raw-sockets-are-refused", Rule: "A command cannot make packets by itself.", promise: network,
		try: func(*scene) error {
			for _, kind := range []struct{ family, kind, protocol int }{
				{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, {unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6}, {unix.AF_PACKET, unix.SOCK_RAW, 0},
			} {
				if fd, err := unix.Socket(kind.family, kind.kind, kind.protocol); err == nil {
					unix.Close(fd)
					return fmt.Errorf("a raw socket of the family %d", kind.family)
				}
			}
			return nil
		},
	}, {
		Name: "the-hypervisor-is-not-reached", Rule: "A command cannot reach the host of a virtual machine by AF_VSOCK, whatever it adds to the number.", promise: network,
		try: func(*scene) error {
			for _, family := range []uintptr{unix.AF_VSOCK, unix.AF_VSOCK | 1<<32} {
				fd, _, errno := unix.Syscall(unix.SYS_SOCKET, family, unix.SOCK_STREAM, 0)
				if errno == 0 {
					unix.Close(int(fd))
					return fmt.Errorf("a socket of the family %#x", family)
				}
			}
			return nil
		},
	}}
}

// connects returns an error when a connection can be had.
func connects(network, address string) error {
	conn, err := net.DialTimeout(network, address, time.Second)
	if err != nil {
		return nil
	}
	conn.Close()
	return fmt.Errorf("a connection to %s %s", network, address)
}
