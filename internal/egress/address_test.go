package egress_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/sandbox-go/sandbox/internal/egress"
)

func TestKind(t *testing.T) {
	for text, want := range map[string]string{
		"8.8.8.8": "", "1.1.1.1": "", "172.32.0.1": "", "100.128.0.1": "", "2606:4700::1111": "", "::ffff:8.8.8.8": "",
		"192.0.1.1": "", "198.20.0.1": "", "223.255.255.255": "",

		"169.254.169.254": "metadata", "168.63.129.16": "metadata", "100.100.100.200": "metadata", "fd00:ec2::254": "metadata",
		"::ffff:169.254.169.254": "metadata", "169.254.170.2": "metadata",
		"127.255.255.255": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback",
		"0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "::": "unspecified",
		"10.255.0.1": "private", "172.31.255.255": "private", "192.168.1.1": "private", "100.127.255.255": "private", "fdff::1": "private",
		"fec0::1": "private", "198.19.255.255": "private",
		"169.254.1.1": "link-local", "fe80::1": "link-local", "febf::1": "link-local", "2606:4700::1%eth0": "link-local",
		"239.0.0.1": "multicast", "ff02::1": "multicast",
		"64:ff9b::8.8.8.8": "translated", "64:ff9b:1::1": "translated", "2002:808:808::": "translated",
		"255.255.255.255": "reserved", "240.0.0.1": "reserved", "192.0.2.1": "reserved", "198.51.100.1": "reserved", "203.0.113.1": "reserved",
		"192.88.99.1": "reserved", "2001::1": "reserved", "2001:db8::1": "reserved", "3fff::1": "reserved", "100::1": "reserved",
		"::8.8.8.8": "reserved", "5f00::1": "reserved", "4000::1": "reserved",
	} {
		if got := egress.Kind(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

func TestOwn(t *testing.T) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		addr, _ := netip.AddrFromSlice(a.(*net.IPNet).IP)
		if !egress.Own(addr) || !egress.Own(addr.Unmap()) {
			t.Errorf("%v is not this machine's", a)
		}
	}
	if addr := netip.MustParseAddr("203.0.113.77"); egress.Own(addr) {
		t.Errorf("%v is this machine's", addr)
	}
}
