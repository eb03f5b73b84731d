package httpapi_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sandbox-go/sandbox/httpapi"
)

// A page whose own name was made to lead to the service gets nothing.
func TestAnyoneAt(t *testing.T) {
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	loopback6 := &net.TCPAddr{IP: net.IPv6loopback, Port: 8080}
	lan := &net.TCPAddr{IP: net.IPv4(192, 168, 1, 5), Port: 8080}
	socket := &net.UnixAddr{Name: "/run/s", Net: "unix"}
	for _, tt := range []struct {
		local net.Addr
		host  string
		want  bool
	}{
		{loopback, "127.0.0.1:8080", true}, {loopback, "localhost:8080", true}, {loopback, "LocalHost.", true}, {loopback, "[::1]:8080", true},
		{loopback6, "[::1]", true}, {loopback6, "localhost", true}, {loopback, "127.1.2.3", true}, {loopback, "[::ffff:127.0.0.1]:80", true},
		{lan, "192.168.1.5:8080", true}, {lan, "localhost", false}, {lan, "127.0.0.1", false}, {lan, "192.168.1.6", false},
		{loopback, "Sandboxes.Example.com:443", true}, {lan, "sandboxes.example.com", true}, {socket, "sandboxes.example.com", true}, {socket, "localhost", true},
		{loopback, "evil.example", false}, {loopback, "evil.example:8080", false}, {loopback, "sandboxes.example.com.evil.example", false},
		{loopback, "localhost.evil.example", false}, {loopback, "127.0.0.1.evil.example", false}, {loopback, "192.168.1.5", false},
		{loopback, "", false}, {socket, "evil.example", false}, {nil, "localhost", false}, {loopback, "2130706433", false}, {loopback, "0x7f.1", false},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Host = tt.host
		if tt.local != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, tt.local))
		}
		_, err := httpapi.AnyoneAt("sandboxes.example.com")(r)
		var answer *httpapi.Error
		if got := err == nil; got != tt.want || !got && !(errors.As(err, &answer) && answer.Status == http.StatusForbidden) {
			t.Errorf("at %v, Host %q: got %v, want it let in: %v", tt.local, tt.host, err, tt.want)
		}
	}
}
