package egress

import (
	"errors"
	"net/netip"
	"strings"
)

// A Host is a name or an address.
type Host struct {
	Name string     // lower case, without a dot at its end; empty for an address
	Addr netip.Addr // never of IPv4 in IPv6; zero for a name
}

// String returns the name or the address.
func (h Host) String() string {
	if h.Name != "" {
		return h.Name
	}
	return h.Addr.String()
}

var errHost = errors.New("it is neither a name of letters, digits, hyphens and underscores nor an address as it is usually written")

const (
	maxName  = 253
	maxLabel = 63
)

// ParseHost parses a host that may be anything. There is one spelling of each: an address
// is four decimal numbers, or IPv6 by RFC 4291; other spellings that a C library takes for
// addresses (2130706433, 0x7f.1, 0177.0.0.1) are no hosts. Brackets are not taken.
func ParseHost(s string) (Host, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		if addr.Zone() != "" {
			return Host{}, errHost
		}
		return Host{Addr: addr.Unmap()}, nil
	}
	name := strings.ToLower(strings.TrimSuffix(s, "."))
	if len(name) > maxName {
		return Host{}, errHost
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return Host{}, errHost
		}
		last = label
	}
	if isNumber(last) {
		return Host{}, errHost
	}
	return Host{Name: name}, nil
}

// isNumber reports whether a label is a number by the rules of inet_aton(3), or begins
// like one of its hexadecimal numbers.
func isNumber(label string) bool {
	return strings.HasPrefix(label, "0x") || strings.Trim(label, "0123456789") == ""
}
