//go:build unix

package pump_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"

	"github.com/sandbox-go/sandbox/backend/pump"
)

// The life of a command's stdout in a backend: Exited is closed after the flush, and
// OutputOver when the pump is done.
func Example() {
	r, w, err := os.Pipe()
	if err != nil {
		fmt.Println(err)
		return
	}
	cmd := exec.Command("sh", "-c", "echo hi; sleep 1 & exit 3")
	cmd.Stdout = w // an *os.File, so that Wait does not wait for its end
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return
	}
	w.Close()
	var sink bytes.Buffer // Spec.Stdout
	over := make(chan struct{})
	p, err := pump.New(r, &sink, func() { close(over) })
	if err != nil {
		fmt.Println(err)
		return
	}
	cmd.Wait() // the command has ended, but what it left holds the pipe
	p.Flush()
	fmt.Printf("exited with %d after %q\n", cmd.ProcessState.ExitCode(), &sink)
	p.Finish() // as after a kill: nobody who holds the pipe is waited for
	<-over
	// Output: exited with 3 after "hi\n"
}
