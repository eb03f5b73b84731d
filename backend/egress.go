package backend

import (
	"context"
	"net"
	"time"
)

// An Egress says which connections may lead out of a sandbox, which has no other way out:
// to what its rules allow, and to nothing else. The zero value allows none, but has
// commands be told so.
//
// Commands find an HTTP proxy, which speaks SOCKS5 too, on the loopback address, and its
// URL in HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, also in lower case. What speaks no proxy
// reaches nothing. Package sandbox judges each connection, looks the host up, looks at the
// address that is to be dialled, and dials that. What a connection carries it does not look
// at: a rule opens all that the host serves, under whatever name. A driver looks only at
// whether Config.Egress is nil.
type Egress struct {
	// Allow are the rules, of which one that allows a connection is enough: HOST,
	// HOST:PORT or HOST:*, where none of the ports is 80 and 443. HOST is
	//
	//	example.com      that name and no other
	//	*.example.com    every name below it, and not itself
	//	*                every name, and every public address
	//	192.0.2.1        that address, or a range, as in 10.0.0.0/8 or [fd00::/8]:443
	//
	// A rule with a name never allows an address that somebody asks for, even if the
	// name has it. Addresses that are not the public internet's (loopback, private,
	// link-local, those of clouds' metadata and of this machine's own interfaces, and
	// others that IANA reserves) are reached only where a rule of addresses names
	// them: by themselves, and by each name that a rule allows.
	Allow []string

	// MaxConns is how many connections the sandbox has at once; more wait. 0 is 256;
	// negative is no bound.
	MaxConns int

	// MaxBytes is how much all connections carry together, in both directions, in the
	// sandbox's life. Then they are cut, and no other is allowed. 0 is no bound.
	MaxBytes int64

	// MaxTime is how long one connection may last. 0 is no bound.
	MaxTime time.Duration
}

// A Listener is an Instance that was created with a Config.Egress. Package sandbox looks
// for it.
type Listener interface {
	// Listen returns the listener for what comes from inside: an unused TCP port of the
	// loopback address, 127.0.0.1, on which nobody but the sandbox's processes can
	// connect. Addr is a *net.TCPAddr, as they know it, and stays the same while the
	// sandbox lives. When Listen has returned, they can connect.
	//
	// Each connection that they make is one of Accept's; one that is not accepted yet
	// waits. Its bytes are exact in both directions, and it has deadlines. It has a method
	// CloseWrite, as a *net.TCPConn has: the end of one direction is told to the other
	// side, which may still answer. It ends with the process that has made it.
	//
	// The listener ends with the sandbox, and so do its connections. Accept then returns
	// an error that wraps net.ErrClosed, as it does after Close. A connection to an agent
	// that was lost and is made again does not end the listener. Package sandbox calls
	// Listen once, before the first Start. The context covers the call only.
	Listen(ctx context.Context) (net.Listener, error)
}
