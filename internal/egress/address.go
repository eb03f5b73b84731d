package egress

import (
	"net"
	"net/netip"
	"slices"
)

// special are the addresses that are not the public internet's, by the registries of
// special-purpose addresses of IANA, and those at which clouds tell a machine its
// secrets. The first that has an address says what it is.
var special = []struct {
	prefix netip.Prefix
	kind   string
}{
	{netip.MustParsePrefix("169.254.169.254/32"), "metadata"},
	{netip.MustParsePrefix("169.254.170.0/24"), "metadata"},   // of containers, AWS
	{netip.MustParsePrefix("168.63.129.16/32"), "metadata"},   // Azure
	{netip.MustParsePrefix("100.100.100.200/32"), "metadata"}, // Alibaba
	{netip.MustParsePrefix("192.0.0.192/32"), "metadata"},     // Oracle
	{netip.MustParsePrefix("fd00:ec2::/32"), "metadata"},      // AWS
	{netip.MustParsePrefix("fd20:ce::254/128"), "metadata"},   // Google

	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "private"}, // shared by carriers
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), "reserved"},
	{netip.MustParsePrefix("192.88.99.0/24"), "reserved"}, // relays of 6to4
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "private"},
	{netip.MustParsePrefix("198.51.100.0/24"), "reserved"},
	{netip.MustParsePrefix("203.0.113.0/24"), "reserved"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"}, // broadcast too

	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "private"}, // once site-local
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("64:ff9b::/96"), "translated"},   // NAT64: any IPv4 address
	{netip.MustParsePrefix("64:ff9b:1::/48"), "translated"}, // NAT64
	{netip.MustParsePrefix("2002::/16"), "translated"},      // 6to4: any IPv4 address
	{netip.MustParsePrefix("2001::/23"), "reserved"},        // Teredo too: any IPv4 address
	{netip.MustParsePrefix("2001:db8::/32"), "reserved"},
	{netip.MustParsePrefix("3fff::/20"), "reserved"},
}

// unicast is what IPv6 has of public addresses.
var unicast = netip.MustParsePrefix("2000::/3")

// Kind says what kind of address a connection would lead to that must not lead there
// unless a rule names it. It is empty for one of the public internet.
func Kind(addr netip.Addr) string {
	if addr.Zone() != "" {
		return "link-local"
	}
	addr = addr.Unmap()
	for _, s := range special {
		if s.prefix.Contains(addr) {
			return s.kind
		}
	}
	if !addr.Is4() && !unicast.Contains(addr) {
		return "reserved"
	}
	return ""
}

// Own reports whether an interface of this machine has the address, or nobody knows: then
// one of the service's own listeners may be there.
func Own(addr netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(all, func(a net.Addr) bool {
		ipnet, ok := a.(*net.IPNet)
		return ok && ipnet.IP.Equal(addr.AsSlice())
	})
}
