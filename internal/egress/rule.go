// Package egress speaks the protocols of HTTP proxies and SOCKS5 with what runs in a
// sandbox, which is hostile, and says what a rule allows and which addresses are public.
// It decides and dials nothing: a [Server] asks its Open for each connection.
package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// A Rule allows connections to a host, to the names below one, to addresses, or to
// every host.
type Rule struct {
	text   string
	all    bool         // every host
	name   string       // a name, or with below what names end in
	below  bool         // the names below it, and not itself
	prefix netip.Prefix // addresses
	port   uint16       // 0 is of anyPort or the default
	any    bool         // every port
}

// The ports of a rule that names none.
var defaultPorts = []uint16{80, 443}

// ParseRule parses HOST, HOST:PORT or HOST:*, where HOST is a name, "*." and a name, an
// address, a range of addresses as in 10.0.0.0/8, or "*". An IPv6 address or range with a
// port is in brackets.
func ParseRule(text string) (Rule, error) {
	r := Rule{text: text}
	host, port, err := splitRule(text)
	if err != nil {
		return Rule{}, err
	}
	switch {
	case port == "*":
		r.any = true
	case port != "":
		if r.port, err = parsePort(port); err != nil {
			return Rule{}, err
		}
	}
	if host == "*" {
		r.all = true
		return r, nil
	}
	if prefix, ok := parsePrefix(host); ok {
		r.prefix = prefix
		return r, nil
	}
	name, below := strings.CutPrefix(host, "*.")
	h, err := ParseHost(name)
	if err != nil || h.Name == "" {
		return Rule{}, fmt.Errorf("%q is neither a name, nor \"*.\" and a name, nor an address, nor a range of addresses", host)
	}
	r.name, r.below = h.Name, below
	return r, nil
}

// splitRule splits a rule's port off, which is empty where it has none.
func splitRule(text string) (host, port string, err error) {
	if rest, ok := strings.CutPrefix(text, "["); ok {
		host, port, ok = strings.Cut(rest, "]")
		if !ok {
			return "", "", fmt.Errorf("%q has no closing bracket", text)
		}
		if port == "" {
			return host, "", nil
		}
		if port, ok = strings.CutPrefix(port, ":"); !ok || port == "" {
			return "", "", fmt.Errorf("%q has something else than a port behind its brackets", text)
		}
		return host, port, nil
	}
	if strings.Count(text, ":") > 1 { // of IPv6, without a port
		return text, "", nil
	}
	host, port, found := strings.Cut(text, ":")
	if found && port == "" {
		return "", "", fmt.Errorf("%q has no port behind its colon", text)
	}
	return host, port, nil
}

// parsePrefix parses an address, or a range of them.
func parsePrefix(s string) (netip.Prefix, bool) {
	if addr, err := netip.ParseAddr(s); err == nil {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), addr.Zone() == ""
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err == nil && !p.Addr().Is4In6()
}

// parsePort parses the digits of a port.
func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strings.HasPrefix(s, "+") {
		return 0, fmt.Errorf("%.20q is not a port between 1 and 65535", s)
	}
	return uint16(n), nil
}

// String returns the rule as it was written.
func (r Rule) String() string { return r.text }

// Allows reports whether a connection to that host and port may be asked for.
func (r Rule) Allows(h Host, port uint16) bool {
	switch {
	case !r.allowsPort(port):
		return false
	case r.all:
		return true
	case h.Name == "" || r.name == "":
		return r.Names(netip.AddrPortFrom(h.Addr, port))
	case r.below:
		return strings.HasSuffix(h.Name, "."+r.name)
	}
	return h.Name == r.name
}

// Names reports whether the rule is one of addresses, and that address and port is among
// them: then a connection may lead there that is otherwise refused, such as a private one.
func (r Rule) Names(to netip.AddrPort) bool {
	return r.prefix.IsValid() && r.prefix.Contains(to.Addr().Unmap()) && r.allowsPort(to.Port())
}

func (r Rule) allowsPort(port uint16) bool {
	if r.port == 0 {
		return r.any || slices.Contains(defaultPorts, port)
	}
	return r.port == port
}

// RuleFor returns the narrowest rule that allows a host and port.
func RuleFor(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
