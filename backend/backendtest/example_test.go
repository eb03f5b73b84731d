package backendtest_test

import (
	"strconv"
	"testing"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/backendtest"
	"github.com/sandbox-go/sandbox/backend/local"
)

// A backend's own test. It has this name, in a file of the backend's:
// TestConformance(t *testing.T).
func ExampleRun() {
	_ = func(t *testing.T) {
		backendtest.Run(t, backendtest.Harness{
			New: func(tb testing.TB) backend.Backend {
				b, err := local.New(nil) // or your own
				if err != nil {
					tb.Fatal(err)
				}
				return b
			},
			Shell:   true,
			Proc:    true,
			Refused: &sandbox.Config{Image: "none"},
			Echo: func(port int) sandbox.Command {
				return sandbox.Command{Argv: []string{"nc", "-ll", "-p", strconv.Itoa(port), "-e", "cat"}}
			},
			Skip: map[string]string{
				"a-traced-command-dies": "the seccomp profile here refuses ptrace",
			},
		})
	}
}
