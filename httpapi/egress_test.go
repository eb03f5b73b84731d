package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
	"github.com/sandbox-go/sandbox/httpapi"
)

// NewSandbox decides where a sandbox may connect to, and its owner sees what was tried, page
// by page, without the addresses that names have.
func TestEgress(t *testing.T) {
	w := start(t, func(w *testServer) {
		w.opts.NewSandbox = func(context.Context, *httpapi.NewSandboxRequest) (*sandbox.CreateOptions, error) {
			return &sandbox.CreateOptions{Config: sandbox.Config{Egress: &sandbox.Egress{Allow: []string{"allowed.test", "internal.test"}}}}, nil
		}
		w.limits.Egress = sandbox.EgressOptions{
			Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr(map[string]string{"allowed.test": "93.184.216.34", "internal.test": "10.1.2.3"}[name])}, nil
			},
			Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("internal 10.1.2.3") },
		}
	})
	w.backend.HandleFunc(func(c *fake.Command) bool { return strings.HasPrefix(c.Shell, "connect ") }, func(p *fake.Process) int {
		proxy, err := url.Parse(p.Getenv("HTTPS_PROXY"))
		if err != nil {
			return 1
		}
		conn, err := p.Dial(context.Background(), "tcp", proxy.Host)
		if err != nil {
			return 1
		}
		defer conn.Close()
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\n\r\n", strings.TrimPrefix(p.Command().Shell, "connect "))
		io.Copy(p.Stdout, conn)
		return 0
	})
	var made struct{ ID string }
	if _, body := w.do(t, "POST", "/v1/sandboxes", "{}"); json.Unmarshal([]byte(body), &made) != nil {
		t.Fatal(body)
	}
	id := made.ID
	for _, target := range []string{"allowed.test:443", "other.test:22", "internal.test:443"} {
		w.do(t, "POST", "/v1/sandboxes/"+id+"/exec", `{"command":"connect `+target+`"}`)
	}
	type attempt struct{ ID, Host, Verdict, Rule, Reason string }
	type page struct {
		Data    []attempt
		HasMore bool `json:"has_more"`
	}
	get := func(query string) (got page) {
		_, body := w.do(t, "GET", "/v1/sandboxes/"+id+"/egress"+query, "")
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		if strings.Contains(body, "10.1.2.3") {
			t.Errorf("an internal address is shown: %s", body)
		}
		return got
	}
	all := []attempt{
		{"egr_000001", "allowed.test", "failed", "allowed.test", "allowed.test:443 cannot be reached: no connection"},
		{"egr_000002", "other.test", "refused", "other.test:22", `other.test:22 is not allowed from this sandbox; the rule to add is "other.test:22"`},
		{"egr_000003", "internal.test", "refused", "", "internal.test:443 leads to a private address, which is refused unless a rule names that address and port"},
	}
	for query, want := range map[string]page{
		"":                          {all, false},
		"?limit=2":                  {all[:2], true},
		"?limit=2&after=egr_000002": {all[2:], false},
	} {
		if diff := cmp.Diff(want, get(query)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", query, diff)
		}
	}
}
