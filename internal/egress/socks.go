package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/sandbox-go/sandbox/internal/relay"
)

// What SOCKS5 is made of (RFC 1928).
const (
	socksVersion = 5

	noAuthentication = 0
	noMethod         = 0xff

	commandConnect = 1

	typeIPv4 = 1
	typeName = 3
	typeIPv6 = 4
)

// The replies to a request.
const (
	replyDone        = 0
	replyFailed      = 1
	replyNotAllowed  = 2
	replyUnreachable = 4 // the host
	replyNoCommand   = 7
	replyNoAddress   = 8 // of that type
)

// errReply is a request that is refused with its value as the reply.
type errReply byte

func (errReply) Error() string { return "a request that SOCKS5 does not have" }

// serveSOCKS serves a connection whose version has been read.
func (s *Server) serveSOCKS(ctx context.Context, c *client) {
	c.SetDeadline(time.Now().Add(askTime))
	if chosen, err := chooseMethod(c); err != nil {
		c.Close()
		return
	} else if _, err := c.Write([]byte{socksVersion, chosen}); err != nil || chosen != noAuthentication {
		c.Close()
		return
	}
	req, err := readSOCKS(c)
	var reply errReply
	if errors.As(err, &reply) {
		answerSOCKS(c, byte(reply))
	}
	if err != nil {
		c.Close()
		return
	}
	c.SetDeadline(time.Time{})
	upstream, err := s.Open(ctx, req)
	if err != nil {
		answerSOCKS(c, replyFor(err))
		c.Close()
		return
	}
	if answerSOCKS(c, replyDone) != nil {
		c.Close()
		upstream.Close()
		return
	}
	relay.Both(c, upstream)
}

func replyFor(err error) byte {
	var e *Error
	if errors.As(err, &e) && e.Refused {
		return replyNotAllowed
	}
	return replyUnreachable
}

// answerSOCKS sends a reply, without an address: no client needs one for CONNECT.
func answerSOCKS(w io.Writer, reply byte) error {
	_, err := w.Write([]byte{socksVersion, reply, 0, typeIPv4, 0, 0, 0, 0, 0, 0})
	return err
}

// chooseMethod reads what follows the version of the first message: how the client
// can say who it is. It needs not.
func chooseMethod(r io.Reader) (byte, error) {
	methods, err := readCounted(r)
	if err != nil {
		return 0, err
	}
	for _, m := range methods {
		if m == noAuthentication {
			return noAuthentication, nil
		}
	}
	return noMethod, nil
}

// readSOCKS reads a request, and nothing beyond it.
func readSOCKS(r io.Reader) (*Request, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	if head[0] != socksVersion || head[2] != 0 {
		return nil, errReply(replyFailed)
	}
	var host string
	switch head[3] {
	case typeIPv4:
		var ip [net.IPv4len]byte
		if _, err := io.ReadFull(r, ip[:]); err != nil {
			return nil, err
		}
		host = netip.AddrFrom4(ip).String()
	case typeIPv6:
		var ip [net.IPv6len]byte
		if _, err := io.ReadFull(r, ip[:]); err != nil {
			return nil, err
		}
		host = netip.AddrFrom16(ip).String()
	case typeName:
		name, err := readCounted(r)
		if err != nil {
			return nil, err
		}
		host = string(name)
	default:
		return nil, errReply(replyNoAddress)
	}
	var port [2]byte
	if _, err := io.ReadFull(r, port[:]); err != nil {
		return nil, err
	}
	req := &Request{Protocol: SOCKS5, Host: host, Port: binary.BigEndian.Uint16(port[:])}
	switch {
	case head[1] != commandConnect:
		return nil, errReply(replyNoCommand)
	case req.Port == 0:
		return nil, errReply(replyFailed)
	}
	return req, nil
}

// readCounted reads a byte that counts others, and those.
func readCounted(r io.Reader) ([]byte, error) {
	var n [1]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	b := make([]byte, n[0])
	_, err := io.ReadFull(r, b)
	return b, err
}
