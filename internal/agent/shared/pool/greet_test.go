//go:build linux && (amd64 || arm64)

package pool_test

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/pool"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// What a process of the agent says instead of a hello tells why it cannot serve.
func TestGreet(t *testing.T) {
	other, err := wire.Append(nil, &wire.Hello{Version: wire.Version + 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, said string
		reason     backend.Reason
		detail     string
	}{
		{"another-version", string(other), backend.CannotStart, "another version"},
		{"nothing", "", backend.NoResources, "without a word"},
		{"the-runtime", "runtime: failed to create new OS thread\n", backend.NoResources, "new OS thread"},
		{"what-it-says", wire.StderrPrefix + "no /proc\n", backend.CannotStart, "no /proc"},
		{"what-it-lacks", wire.StderrPrefix + "fork: " + unix.EAGAIN.Error() + "\n", backend.NoResources, "fork"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ours, theirs := pair(t)
			if _, err := theirs.Write([]byte(test.said)); err != nil {
				t.Fatal(err)
			}
			theirs.CloseWrite()
			err := pool.Greet(ours)
			var refused *backend.StartError
			if !errors.As(err, &refused) || refused.Reason != test.reason || !strings.Contains(refused.Detail, test.detail) {
				t.Errorf("%v", err)
			}
		})
	}
}

func pair(t *testing.T) (ours, theirs *net.UnixConn) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		conn, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if i == 0 {
			ours = conn.(*net.UnixConn)
		} else {
			theirs = conn.(*net.UnixConn)
		}
	}
	return ours, theirs
}
