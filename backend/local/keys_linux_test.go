package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// useKeys adds keys to keyrings, or says which are there: of its user, or with "-session"
// of its session.
func useKeys(what string) {
	what, session := strings.CutSuffix(what, "-session")
	rings := []int{unix.KEY_SPEC_USER_KEYRING, unix.KEY_SPEC_USER_SESSION_KEYRING}
	if session {
		rings = []int{unix.KEY_SPEC_SESSION_KEYRING}
	}
	for _, ring := range rings {
		var err error
		if what == "add" {
			err = addKey(ring)
		} else {
			_, err = unix.KeyctlSearch(ring, "user", fmt.Sprint("key", ring), 0)
		}
		fmt.Println(err)
	}
	os.Exit(0)
}

func addKey(ring int) error {
	_, err := unix.AddKey("user", fmt.Sprint("key", ring), []byte("secret"), ring)
	return err
}

// TestKeys checks that the keys of a sandbox's user do not outlive the sandbox.
func TestKeys(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, which has a user for each sandbox")
	}
	self := programtest.PublicSelf(t)
	i := newInstance(t, newBackend(t, nil), "sbx_1")
	uid, err := strconv.Atoi(strings.TrimSpace(output(t, i, backend.Spec{Shell: "id -u"})))
	if err != nil {
		t.Fatal(err)
	}
	if out := output(t, i, backend.Spec{Argv: []string{self}, Env: []string{asKeyUser + "=add"}}); out != "<nil>\n<nil>\n" {
		t.Skipf("no key can be added here: %s", out)
	}
	find := func() string {
		cmd := exec.Command(self)
		cmd.Env = []string{asKeyUser + "=find"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Error(err)
		}
		return string(out)
	}
	if out := find(); out != "<nil>\n<nil>\n" {
		t.Fatalf("before the end: %s", out)
	}
	if err := i.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, none := find(), unix.ENOKEY.Error()+"\n"; out != none+none {
		t.Errorf("afterwards: %s", out)
	}
}

// TestSessionKeys checks that commands have neither the keys of the session that the
// service was started in, nor each other's.
func TestSessionKeys(t *testing.T) {
	self := programtest.PublicSelf(t)
	runtime.LockOSThread() // for good: the thread ends with the test, and its keyring too
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil {
		t.Skipf("no session can be made here: %v", err)
	}
	if err := addKey(unix.KEY_SPEC_SESSION_KEYRING); err != nil {
		t.Skipf("no key can be added here: %v", err)
	}
	b := newBackend(t, nil)
	one, two := newInstance(t, b, "sbx_1"), newInstance(t, b, "sbx_2")
	const none = "required key not available\n"
	for _, test := range []struct {
		name, does string
		in         backend.Instance
		want       string
	}{
		{"the-services", "find-session", one, none},
		{"its-own", "add-session", one, "<nil>\n"},
		{"of-the-command-before", "find-session", one, none},
		{"of-another-sandbox", "find-session", two, none},
	} {
		if out := output(t, test.in, backend.Spec{Argv: []string{self}, Env: []string{asKeyUser + "=" + test.does}}); out != test.want {
			t.Errorf("%s: %q", test.name, out)
		}
	}
}
