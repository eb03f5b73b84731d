//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/namespace"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// asStacker is the variable that makes it count how many more Landlock domains it can enter.
const asStacker = "SANDBOX_TEST_STACKER"

func stack() {
	unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	n := 0
	for {
		rules := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK}
		set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), unsafe.Sizeof(rules), 0)
		if errno == 0 {
			_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0)
		}
		if errno != 0 {
			fmt.Println(n, errno)
			os.Exit(0)
		}
		n++
	}
}

// Where the kernel has Landlock, commands are in one domain of it, or in none that keeps them
// from what AllowNamespaces allows; and where mounts may be written to, they can.
func TestLandlock(t *testing.T) {
	self, open := programtest.PublicSelf(t), programtest.PublicDir(t)
	file := filepath.Join(open, "file")
	err := os.WriteFile(file, nil, 0o666)
	if err == nil {
		err = os.Chmod(file, 0o666)
	}
	if err == nil {
		err = os.Chmod(open, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	opts := namespace.Options{Mounts: []backend.Mount{
		{Source: self, Target: "/self", ReadOnly: true},
		{Source: open, Target: "/open"},
		{Source: file, Target: "/open-file"},
	}}
	sb := newSandbox(t, newBackend(t, &opts), nil)
	opts.AllowNamespaces = true
	without := newSandbox(t, newBackend(t, &opts), nil)

	layers := func(sb sandbox.Sandbox) (n int) {
		rec, err := sb.Run(t.Context(), sandbox.Command{Argv: []string{"/self"}, Env: map[string]string{asStacker: "1"}})
		if err != nil || rec.Err != nil {
			t.Fatal(err, rec)
		}
		fmt.Sscan(rec.Stdout.String(), &n)
		return n
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asStacker+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	outside := 0
	fmt.Sscan(string(out), &outside)
	if got := layers(without); got != outside {
		t.Errorf("with AllowNamespaces %d domains can be entered, and outside %d", got, outside)
	}
	if outside == 0 {
		t.Skipf("the kernel has no Landlock: %s", out)
	}
	if got := layers(sb); got != outside-1 {
		t.Errorf("in the sandbox %d domains can be entered, and outside %d", got, outside)
	}
	for _, text := range []string{
		"mkdir -p a/b /tmp/c && echo x >a/f && mv a/f a/b/g && ln a/b/g h && cp h /tmp/c/ && mv /tmp/c/h /tmp/i && rm -r a h",
		"echo x >/open/new && mv /open/new /open/newer && rm /open/newer && echo x >/open-file && : >/open-file",
		"echo x >/dev/null && echo x >/dev/shm/x && mkfifo /tmp/p && rm /tmp/p",
		"sleep 60 & kill $! && echo 900 >/proc/self/oom_score_adj",
	} {
		if got := output(t, sb, text); got != "" {
			t.Errorf("%s: %s", text, got)
		}
	}
	if got := output(t, sb, "mkdir /x /usr/x /open/../x 2>&1 | grep -vi 'read-only\\|denied'"); strings.TrimSpace(got) != "" {
		t.Errorf("the root can be changed: %s", got)
	}
}

func TestLandlockOneNumber(t *testing.T) { asOrdinaryUser(t, "^TestLandlock$") }
func TestLandlockSubIDs(t *testing.T)    { asUserWithSubIDs(t, "^TestLandlock$") }
