//go:build unix

package local_test

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/sandbox-go/sandbox/internal/programtest"
)

// ordinary is the number of a user who has nothing, in no range of sandboxes.
const ordinary = 39_999

// asOrdinaryUser runs tests of this package again, as somebody who is not root.
func asOrdinaryUser(t *testing.T, pattern string) { programtest.AsUser(t, ordinary, pattern) }

// A service that ignores signals, as nohup has it ignore SIGHUP, has commands that do not.
func TestIgnoredSignals(t *testing.T) {
	const cases = "^TestConformance(ProcessGroups)?$/^(a-command-runs|every-signal-arrives|ctrl-c-interrupts)$"
	cmd := exec.Command("/bin/sh", "-c", `trap "" HUP INT; exec "$@"`, "sh", os.Args[0], "-test.run", cases, "-test.v")
	out, err := cmd.CombinedOutput()
	if err != nil || bytes.Count(out, []byte("PASS: TestConformance")) < 6 {
		t.Errorf("%v\n%s", err, out)
	}
}
