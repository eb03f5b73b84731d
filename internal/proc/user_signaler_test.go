//go:build linux && (amd64 || arm64)

package proc_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/proc"
)

// A kill that stops its user lets all others of the user go on, those too that had no
// time to stop.
func TestStoppedGoOn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("stopping another user takes root")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const uid = 2_000_070_001 // nobody's
	locks, err := unix.MemfdCreate("locks", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	signaler := proc.NewUserSignaler(locks)
	user := signaler.User(uid)
	defer signaler.Sweep([]int64{uid})
	pids := make([]int, 8)
	for i := range pids {
		// Its parent ends, so that it does not descend from the test.
		cmd := exec.Command("/bin/sh", "-c", "setsid sh -c 'while :; do :; done' >/dev/null 2>&1 </dev/null & echo $!")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(string(out), &pids[i]); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		user.Stopped(func() {})
		time.Sleep(20 * time.Millisecond)
		for _, pid := range pids {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil {
				t.Fatal(err)
			}
			if state := stat[bytes.LastIndexByte(stat, ')')+2]; state != 'R' {
				t.Fatalf("a process is in state %c", state)
			}
		}
	}
}
