package docker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/docker"
)

// newEgress returns a sandbox from which a server of this machine is reached as
// allowed.test, and nothing else.
func newEgress(t *testing.T, b backend.Backend) sandbox.Sandbox {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "from", r.Host) }))
	t.Cleanup(server.Close)
	sb, err := sandbox.New(testContext(t), b, &sandbox.Options{
		Config: sandbox.Config{Egress: &sandbox.Egress{Allow: []string{"allowed.test"}}},
		Egress: sandbox.EgressOptions{
			Resolve: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
			},
			Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIn(t, sb.Close) })
	return sb
}

// A client finds the proxy by itself.
func TestEgress(t *testing.T) {
	sb := newEgress(t, newBackend(t, docker.Options{}))
	if got := output(t, sb, "wget -q -O - http://allowed.test/"); got != "from allowed.test\n" {
		t.Errorf("got %q", got)
	}
	rec := run(t, sb, "wget -q -O - http://other.test/; ip route; wget -q -Y off -O - http://93.184.216.34/")
	if rec.Stdout.String() != "" {
		t.Errorf("of what is not allowed: %s", describe(rec))
	}
}

// A connection to the agent that was lost and is made again leads out as before.
func TestEgressAfterALostConnection(t *testing.T) {
	p := newProxy(t, engine(t))
	sb := newEgress(t, newBackend(t, docker.Options{Host: p.host, Connection: docker.ConnectEngine}))
	before := output(t, sb, "echo $HTTP_PROXY")
	e, err := sb.Start(testContext(t), sandbox.Command{Shell: "sleep 6666"})
	if err != nil {
		t.Fatal(err)
	}
	p.cut()
	if _, err := e.Wait(testContext(t)); err != nil { // the loss is seen
		t.Fatal(err)
	}
	p.restore()
	if got := output(t, sb, "echo $HTTP_PROXY; wget -q -O - http://allowed.test/"); got != before+"from allowed.test\n" {
		t.Errorf("got %q after %q", got, before)
	}
}

// A network is another way out.
func TestEgressWithANetwork(t *testing.T) {
	rules := &backend.Egress{}
	b := newBackend(t, docker.Options{})
	for _, network := range []string{"bridge", "host"} {
		if _, err := b.Create(t.Context(), &backend.Config{ID: "sbx_none", Network: network, Egress: rules}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", network, err)
		}
	}
	if _, err := newBackend(t, docker.Options{Network: "bridge"}).Create(t.Context(), &backend.Config{ID: "sbx_none", Egress: rules}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("by an option: %v", err)
	}
}
