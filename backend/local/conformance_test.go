//go:build unix

package local_test

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/backendtest"
	"github.com/sandbox-go/sandbox/backend/local"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// TestConformance runs the suite as whoever runs the tests.
func TestConformance(t *testing.T) { conform(t, nil) }

// TestConformanceProcessGroups runs the suite without the agent.
func TestConformanceProcessGroups(t *testing.T) {
	conform(t, &local.Options{ProcessGroups: true})
}

// TestConformanceOrdinaryUser runs the suite as somebody who is not root.
func TestConformanceOrdinaryUser(t *testing.T) {
	asOrdinaryUser(t, "^TestConformance$")
}

func conform(t *testing.T, opts *local.Options) {
	self := programtest.PublicSelf(t)
	var tracer func(int) sandbox.Command
	if runtime.GOOS == "linux" {
		tracer = func(pid int) sandbox.Command {
			return sandbox.Command{Argv: []string{self}, Env: map[string]string{programtest.AsTracer: strconv.Itoa(pid)}}
		}
	}
	backendtest.Run(t, backendtest.Harness{
		New: func(tb testing.TB) backend.Backend {
			b, err := local.New(opts)
			if err != nil {
				tb.Fatal(err)
			}
			return b
		},
		Shell:    true,
		Proc:     true,
		HostProc: true,
		Echo: func(port int) sandbox.Command {
			return sandbox.Command{Argv: []string{self}, Env: map[string]string{programtest.AsEcho: "tcp 127.0.0.1:" + strconv.Itoa(port)}}
		},
		Tracer:  tracer,
		Refused: &backend.Config{Image: "none"},
	})
}
