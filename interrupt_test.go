//go:build linux

package sandbox_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox/internal/programtest"
)

// A user's first program must leave nothing, running or on disk, when Ctrl-C ends it
// while a command runs.
func TestInterruptedProgramsLeaveNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	quickstart, err := os.ReadFile("examples/quickstart/main.go")
	if err != nil {
		t.Fatal(err)
	}
	// Nothing else on the machine sleeps for so long.
	span := fmt.Sprintf("%d.%09d", 100_000+os.Getpid(), time.Now().Nanosecond())
	long := "(setsid sleep " + span + " &); sleep " + span
	for name, source := range map[string]string{
		"readme":     strings.Replace(programtest.ReadmeFirst(t, "README.md", "local"), `make test 2>&1 | tail -n 20`, long, 1),
		"quickstart": strings.Replace(string(quickstart), `echo hello; echo oops >&2; exit 3`, long, 1),
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(source, span) {
				t.Fatal("the command that was to be replaced is not there any more")
			}
			temp, bin := openDir(t), programtest.Build(t, source)
			// A terminal interrupts the whole process group.
			var out bytes.Buffer
			cmd := exec.Command(bin)
			cmd.Env = append(os.Environ(), "TMPDIR="+temp)
			cmd.Stdout, cmd.Stderr = &out, &out
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			waitUntil(t, "its command runs", func() bool { return len(programtest.Running(t, span)) >= 3 })
			if made, _ := os.ReadDir(temp); len(made) == 0 {
				t.Error("the program has made no directory below TMPDIR: the test would not see what is left")
			}
			if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Fatal("it has not ended")
			}
			if left := programtest.Running(t, span); left != nil {
				t.Errorf("left running: %q", left)
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left on disk: %v, %v", left, err)
			}
			if t.Failed() {
				t.Logf("it printed:\n%s", &out)
			}
		})
	}
}

// openDir returns an empty directory that another user can go through, as a root
// service's sandboxes must.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "interrupt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// waitUntil waits until is true, for 20 s at most.
func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}
