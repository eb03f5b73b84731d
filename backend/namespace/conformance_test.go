//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/backendtest"
	"github.com/sandbox-go/sandbox/backend/namespace"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// TestConformance runs the suite as whoever runs the tests.
func TestConformance(t *testing.T) { conformance(t, namespace.Options{}) }

// conformance runs the suite on sandboxes with those options.
func conformance(t *testing.T, opts namespace.Options) {
	newBackend(t, &opts) // says what the machine lacks
	const inside = "/self"
	self := programtest.PublicSelf(t)
	command := func(variable, value string) sandbox.Command {
		return sandbox.Command{Argv: []string{inside}, Env: map[string]string{variable: value}}
	}
	opts.Mounts = []backend.Mount{{Source: self, Target: inside, ReadOnly: true}}
	backendtest.Run(t, backendtest.Harness{
		New: func(tb testing.TB) backend.Backend {
			b, err := namespace.New(&opts)
			if err != nil {
				tb.Fatal(err)
			}
			return b
		},
		Shell:    true,
		Proc:     true,
		HostProc: true,
		Echo: func(port int) sandbox.Command {
			return command(programtest.AsEcho, "tcp 127.0.0.1:"+strconv.Itoa(port))
		},
		Connect: func(host string, port int) sandbox.Command {
			return command(programtest.AsClient, "tcp "+net.JoinHostPort(host, strconv.Itoa(port)))
		},
		Tracer:  func(pid int) sandbox.Command { return command(programtest.AsTracer, strconv.Itoa(pid)) },
		Refused: &backend.Config{Image: "none"},
		Lose: func(tb testing.TB, b backend.Backend, id string) {
			if err := syscall.Kill(namespace.AgentPID(b.(*namespace.Backend), id), syscall.SIGKILL); err != nil {
				tb.Error(err)
			}
		},
	})
}

// TestConformanceOneNumber runs the suite as an ordinary user who has one number only.
func TestConformanceOneNumber(t *testing.T) { asOrdinaryUser(t, "^TestConformance$") }

// TestConformanceSubIDs runs the suite as an ordinary user who has more in /etc/subuid.
func TestConformanceSubIDs(t *testing.T) { asUserWithSubIDs(t, "^TestConformance$") }

// TestConformanceOverlay runs the suite in a writable root made of a directory, with all that is
// written in memory.
func TestConformanceOverlay(t *testing.T) {
	if os.Geteuid() == 0 && os.Getenv("SANDBOX_TEST_FULL") == "" {
		t.Skip("it takes minutes: TestConformanceOverlayOneNumber runs a part of it, and SANDBOX_TEST_FULL=1 all")
	}
	conformance(t, namespace.Options{Root: openRoot(t), Overlay: true, WriteSize: 256 << 20})
}

// TestConformanceOverlayOneNumber runs what differs most there: files, kills and the end.
func TestConformanceOverlayOneNumber(t *testing.T) {
	asOrdinaryUser(t, "^TestConformanceOverlay$/^(a-command-runs|every-exit|a-kill-reaches-(deep|an)|a-close|files-|directories-|a-write-|no-name-leads|a-tree-goes|a-directory-of|a-terminal-can-be)")
}
