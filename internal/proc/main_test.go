package proc_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A UserSignaler lives as long as its process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/sandbox-go/sandbox/internal/proc.NewUserSignaler.func1"))
}
