package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// BearerKeys returns an Authenticator of requests that carry one of the given
// keys as "Authorization: Bearer KEY" (RFC 6750). Owners maps a key to the owner
// it belongs to; it is copied. The time a comparison takes does not depend on the
// keys. An empty key matches no request.
func BearerKeys(owners map[string]string) Authenticator {
	type entry struct {
		sum   [sha256.Size]byte // of equal length for every key
		owner string
	}
	var entries []entry
	for key, owner := range owners {
		if key != "" {
			entries = append(entries, entry{sha256.Sum256([]byte(key)), owner})
		}
	}
	return func(r *http.Request) (Principal, error) {
		scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return Principal{}, errors.New("no bearer key")
		}
		sum := sha256.Sum256([]byte(strings.TrimLeft(key, " ")))
		match := -1
		for i := range entries {
			if subtle.ConstantTimeCompare(sum[:], entries[i].sum[:]) == 1 {
				match = i
			}
		}
		if match < 0 {
			return Principal{}, errors.New("unknown bearer key")
		}
		return Principal{Owner: entries[match].owner}, nil
	}
}

// Anyone is an Authenticator that lets every request in, as one and the same
// owner, the empty one. It is for tests, and for APIs that something in front of
// them protects. Where a browser can reach the service, use AnyoneAt.
func Anyone(*http.Request) (Principal, error) { return Principal{}, nil }

// AnyoneAt is Anyone for requests to the service's own host only; others are a 403. A
// page of a stranger's can make a name of its own lead to this service (DNS rebinding),
// and its visitors' browsers then take it for the page's own server; but the Host of
// their requests is still that name. The service's own are the address that the
// connection came to and, where that is a loopback address, all of these and
// "localhost"; and names, as in "sandboxes.example.com". Ports are not compared.
func AnyoneAt(names ...string) Authenticator {
	names = slices.Clone(names)
	return func(r *http.Request) (Principal, error) {
		host := hostname(r.Host)
		if host != "" && (atOwnAddress(r, host) || slices.ContainsFunc(names, func(name string) bool { return hostname(name) == host })) {
			return Principal{}, nil
		}
		return Principal{}, &Error{Status: http.StatusForbidden, Message: "this host name is not the service's: use its address, or have the name added to it"}
	}
}

// hostname returns the name or the address in a Host header, without the port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// atOwnAddress reports whether host stands for the address that r came to.
func atOwnAddress(r *http.Request, host string) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	tcp, ok := local.(*net.TCPAddr)
	if !ok {
		return host == "localhost" // a socket that no browser reaches
	}
	own := tcp.AddrPort().Addr().Unmap()
	if host == "localhost" {
		return own.IsLoopback()
	}
	asked, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	asked = asked.Unmap()
	return asked == own || asked.IsLoopback() && own.IsLoopback()
}
