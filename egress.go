package sandbox

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// EgressOptions are how this package does what each sandbox's [Config.Egress] allows.
// The zero value is the machine's resolver and network. The functions may be called
// concurrently, and each context ends with the connection that is asked for, or 30 s after
// it was.
type EgressOptions struct {
	// Resolve returns the addresses of a name, which is in lower case and without a
	// dot at its end. They are judged as those of the machine's resolver are, which is
	// asked without its search domains. Nil is that.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)

	// Dial connects to an address that was judged: network is "tcp", and address an IP
	// address and a port, never a name. Where the connection has a method CloseWrite,
	// it is told the end of what is sent. Nil dials from this machine.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Header returns headers to add to a plain HTTP request that was allowed, such as
	// an Authorization that the sandbox never sees, instead of its own of the same names.
	// Look at the host, and the port: what is sent there is not encrypted. It cannot be
	// done for a CONNECT, behind which all is encrypted. Nil adds none.
	Header func(ctx context.Context, r EgressRequest) http.Header
}

// An EgressRequest is a plain HTTP request of something in a sandbox.
type EgressRequest struct {
	Key       Key    // its Manager's key; the zero Key for a sandbox of New
	SandboxID string // the sandbox
	Host      string // a name in lower case and without a dot at its end, or an address
	Port      int
	Method    string
	Path      string // of the URL, decoded
}

// An EgressAttempt is one connection that something in a sandbox has asked for, or one
// plain HTTP request: it has a connection of its own. It must not be modified.
type EgressAttempt struct {
	ID        string         // unique in its sandbox
	SandboxID string         // the sandbox
	Protocol  EgressProtocol // how it was asked for
	Host      string         // lower case, without a dot at its end; for a malformed host, the first of what was asked for
	Port      int
	Verdict   EgressVerdict

	// Rule is the rule that allowed it, or that would if it was refused, or empty.
	Rule string

	// Reason is what the sandbox was told of why it was refused, or failed; or why it was
	// cut. Err is more of that, for the service alone, or nil: it may name the internal
	// address that a name has, and the rule for that.
	Reason string
	Err    error

	Addr     netip.AddrPort // where it led; the zero value if it led nowhere
	Sent     int64          // bytes from the sandbox
	Received int64          // bytes to the sandbox

	StartedAt time.Time
	EndedAt   time.Time // zero while it lasts
}

// An EgressProtocol is how a connection out of a sandbox is asked for.
type EgressProtocol string

const (
	EgressConnect EgressProtocol = "connect" // the HTTP proxy's CONNECT
	EgressHTTP    EgressProtocol = "http"    // a plain request to the HTTP proxy
	EgressSOCKS5  EgressProtocol = "socks5"
)

// An EgressVerdict says what has become of an attempt.
type EgressVerdict string

const (
	EgressPending EgressVerdict = "pending" // not known yet
	EgressAllowed EgressVerdict = "allowed" // and connected
	EgressRefused EgressVerdict = "refused" // by the rules or limits
	EgressFailed  EgressVerdict = "failed"  // allowed, and could not be reached
)
