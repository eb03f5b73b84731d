package docker_test

import (
	"errors"
	"net"
	"testing"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/docker"
)

// A network that others listen on too has no ports that are the sandbox's own.
func TestPortsOfASharedNetwork(t *testing.T) {
	b := newBackend(t, docker.Options{})
	other := newSandbox(t, b, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	for _, network := range []string{"host", "container:" + containerOf(other)} {
		sb := newSandbox(t, b, &sandbox.Config{Network: network})
		if conn, err := sb.Dial(t.Context(), port); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: got %v, %v", network, conn, err)
		}
		info := newBackend(t, docker.Options{Network: network}).Info()
		if info.Ports || info.DedicatedNetwork {
			t.Errorf("%s: ports %v, own network %v", network, info.Ports, info.DedicatedNetwork)
		}
	}
}
