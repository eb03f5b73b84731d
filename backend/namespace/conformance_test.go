//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"net"
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
func TestConformance(t *testing.T) {
	newBackend(t, nil) // says what the machine lacks
	const inside = "/self"
	self := programtest.PublicSelf(t)
	command := func(variable, value string) sandbox.Command {
		return sandbox.Command{Argv: []string{inside}, Env: map[string]string{variable: value}}
	}
	backendtest.Run(t, backendtest.Harness{
		New: func(tb testing.TB) backend.Backend {
			b, err := namespace.New(&namespace.Options{Mounts: []backend.Mount{{Source: self, Target: inside, ReadOnly: true}}})
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
