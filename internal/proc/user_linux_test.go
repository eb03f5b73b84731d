//go:build linux && (amd64 || arm64)

package proc_test

import (
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/proc"
)

// Where a kernel has no setfsuid, as gVisor, what is made for a user is the user's
// all the same, and the thread has its own rights again afterwards.
func TestEffectivelyAs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root")
	}
	const uid, gid = 39997, 39996
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var fds [2]int
	proc.EffectivelyAs(&syscall.Credential{Uid: uid, Gid: gid}, func() {
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
	})
	euid, egid := os.Geteuid(), os.Getegid()
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	var stat unix.Stat_t
	if err := unix.Fstat(fds[0], &stat); err != nil || stat.Uid != uid || stat.Gid != gid {
		t.Errorf("the pipe belongs to %d and %d, want %d and %d; %v", stat.Uid, stat.Gid, uid, gid, err)
	}
	if euid != 0 || egid != 0 {
		t.Errorf("afterwards the thread is %d and %d", euid, egid)
	}
}
