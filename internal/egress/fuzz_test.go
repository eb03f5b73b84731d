package egress_test

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/sandbox-go/sandbox/internal/egress"
)

// FuzzSOCKS reads what a hostile client may send as a request of SOCKS5. Nothing beyond the
// request is read, and what is understood is what was sent.
func FuzzSOCKS(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x03\x0bpublic.test\x01\xbbrest"))
	f.Add([]byte("\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50"))
	f.Add([]byte("\x05\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x7f\x00\x00\x01\x01\xbb"))
	f.Add([]byte("\x05\x03\x00\x03\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		req, err := egress.ReadSOCKS(r)
		if err != nil {
			return
		}
		consumed := in[:len(in)-r.Len()]
		var host []byte
		switch consumed[3] {
		case 1:
			host = netip.MustParseAddr(req.Host).AsSlice()
		case 3:
			host = append([]byte{byte(len(req.Host))}, req.Host...)
		case 4:
			ip := netip.MustParseAddr(req.Host).As16()
			host = ip[:]
		}
		again := append([]byte{5, 1, 0, consumed[3]}, host...)
		again = append(again, byte(req.Port>>8), byte(req.Port))
		if !bytes.Equal(again, consumed) || req.Port == 0 || req.Protocol != egress.SOCKS5 {
			t.Errorf("%q was understood as %+v", consumed, req)
		}
	})
}

// FuzzHost parses what may be asked for. What is a host is one in its one spelling, too.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"public.test", "PUBLIC.test.", "127.0.0.1", "0x7f.1", "2130706433", "::ffff:7f00:1", "fe80::1%eth0", "a..b", "１２７.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := egress.ParseHost(s)
		if err != nil {
			return
		}
		again, err := egress.ParseHost(h.String())
		if err != nil || again != h {
			t.Errorf("%q is %+v, and that is %+v, %v", s, h, again, err)
		}
		if (h.Name == "") != h.Addr.IsValid() || h.Name != strings.ToLower(h.Name) || h.Addr.Is4In6() || h.Addr.Zone() != "" {
			t.Errorf("%q is %+v", s, h)
		}
		if last := h.Name[strings.LastIndexByte(h.Name, '.')+1:]; h.Name != "" && last[0] >= '0' && last[0] <= '9' && strings.Trim(last, "0123456789") == "" {
			t.Errorf("%q is a name that ends in a number", h.Name)
		}
	})
}

// FuzzRule parses rules. A rule that takes a host for its name takes no address.
func FuzzRule(f *testing.F) {
	for _, s := range []string{"*", "*.public.test:443", "public.test:*", "10.0.0.0/8", "[fd00::/8]:443", "::1"} {
		f.Add(s)
	}
	addr := egress.Host{Addr: netip.MustParseAddr("127.0.0.1")}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := egress.ParseRule(s)
		if err != nil {
			return
		}
		if r.String() != s {
			t.Errorf("%q is written %q", s, r)
		}
		if r.Allows(addr, 443) && !strings.HasPrefix(s, "*") && !r.Names(netip.AddrPortFrom(addr.Addr, 443)) {
			t.Errorf("%q allows %v by a name", s, addr)
		}
	})
}
