//go:build linux && (amd64 || arm64)

package serve

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/proc"
)

// endOthers kills the other agents of the container, and what they leave to its first
// process. An agent is started from outside, so that it has no parent here, and a
// command always has one.
func endOthers() error {
	if os.Getppid() != 0 {
		return errors.New("not started from outside a container: what else runs here is not to be killed")
	}
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		left := 0
		for pid, parent := range proc.Parents() {
			agent := parent == 0 && proc.Name(pid) == "sandbox-agent"
			if pid != 1 && pid != os.Getpid() && (agent || parent == 1) && !proc.Exiting(pid) {
				unix.Kill(pid, unix.SIGKILL)
				left++
			}
		}
		switch {
		case left == 0:
			return nil
		case time.Since(begin) > closeTime:
			return errors.New("what another agent has started cannot be killed")
		}
	}
}
