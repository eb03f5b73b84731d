package programtest

import (
	"context"
	"fmt"
	"os"

	"github.com/sandbox-go/sandbox/backend"
)

// AsService is the variable of the environment that makes a test program a service of its
// own, see [Serve].
const AsService = "SANDBOX_TEST_SERVICE"

// Serve runs the command that [AsService] holds, in a sandbox, until somebody kills this
// process. Without that variable it returns at once.
func Serve[B backend.Backend](newBackend func() (B, error)) {
	text := os.Getenv(AsService)
	if text == "" {
		return
	}
	b, err := newBackend()
	if err == nil {
		var i backend.Instance
		if i, err = b.Create(context.Background(), &backend.Config{ID: "sbx_1"}); err == nil {
			_, err = i.Start(context.Background(), &backend.Spec{Shell: text, Stdout: os.Stdout, Stderr: os.Stderr})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}
