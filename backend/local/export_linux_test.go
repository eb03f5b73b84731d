package local

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// Reaches is reaches, for a user that is the sandbox's alone or not.
func Reaches(ctx context.Context, uid uint32, own bool, conn net.Conn) (bool, error) {
	return reaches(ctx, identity{id: uid, own: own}, conn)
}

// DiagAndTables returns what the kernel answers about a port's listeners and about the
// end of a connection, asked in either way.
func DiagAndTables(port uint16, local, remote netip.AddrPort) (asked, read string, err error) {
	listeners, err := diagListeners(port)
	if err != nil {
		return "", "", err
	}
	conn, err := diagConnection(local, remote)
	if err != nil {
		return "", "", err
	}
	all, err := tcpSockets(port)
	if err != nil {
		return "", "", err
	}
	var table sockets
	for _, s := range all {
		if s.listening {
			s.remote = netip.AddrPort{}
			table = append(table, s)
		}
	}
	for n := range listeners {
		listeners[n].remote = netip.AddrPort{}
	}
	show := func(all sockets, c *socket) string {
		if c == nil {
			return fmt.Sprintf("%+v", all)
		}
		return fmt.Sprintf("%+v %+v", all, *c)
	}
	return show(listeners, conn), show(table, all.connection(local, remote)), nil
}
