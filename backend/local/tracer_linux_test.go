package local_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox"
)

// asTracer is the variable that makes this program the tracer of the process that it
// holds.
const asTracer = "SANDBOX_TEST_TRACER"

// newTracer returns what backendtest.Harness has as Tracer, of a copy of this program.
func newTracer(self string) func(int) sandbox.Command {
	return func(pid int) sandbox.Command {
		return sandbox.Command{
			Argv: []string{self, "-test.run=^TestTracer$"},
			Env:  map[string]string{asTracer: strconv.Itoa(pid)},
		}
	}
}

// TestTracer is the tracer, in the program that newTracer starts.
func TestTracer(t *testing.T) {
	pid, err := strconv.Atoi(os.Getenv(asTracer))
	if err != nil {
		t.Skip("nothing is to be traced")
	}
	runtime.LockOSThread() // the thread traces, not the process
	if err := unix.PtraceSeize(pid); err != nil {
		fmt.Print(os.NewSyscallError("ptrace(PTRACE_SEIZE)", err))
		os.Exit(1)
	}
	fmt.Print("tracing")
	select {}
}
