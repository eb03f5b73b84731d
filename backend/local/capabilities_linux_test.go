package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/programtest"
)

// TestFewCapabilities runs tests again as root with what it takes to change users, and
// no more: whatever is another's is closed to it.
func TestFewCapabilities(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, to lack capabilities")
	}
	cmd := exec.Command(programtest.PublicSelf(t), "-test.run=^(TestHostileTrees|TestLeftovers|TestKeys|TestConformance)$/^(a-sandbox-cannot|temporary-files)", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), asFew+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestHostileTrees") {
		t.Errorf("%v\n%s", err, out)
	}
}

// keepFew starts this program again with the few capabilities.
func keepFew() {
	runtime.LockOSThread() // whose bounding set the next program has
	few := []int{unix.CAP_CHOWN, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID}
	for c := 0; c <= unix.CAP_LAST_CAP; c++ {
		if !slices.Contains(few, c) {
			unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		}
	}
	os.Unsetenv(asFew)
	fmt.Fprintln(os.Stderr, syscall.Exec(os.Args[0], os.Args, os.Environ()))
	os.Exit(1)
}
