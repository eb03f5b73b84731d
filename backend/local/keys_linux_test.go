package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
)

// useKeys adds keys to its user's keyrings, or says which are there.
func useKeys(what string) {
	for _, ring := range []int{unix.KEY_SPEC_USER_KEYRING, unix.KEY_SPEC_USER_SESSION_KEYRING} {
		var err error
		if what == "add" {
			_, err = unix.AddKey("user", fmt.Sprint("key", ring), []byte("secret"), ring)
		} else {
			_, err = unix.KeyctlSearch(ring, "user", fmt.Sprint("key", ring), 0)
		}
		fmt.Println(err)
	}
	os.Exit(0)
}

// TestKeys checks that the keys of a sandbox's user do not outlive the sandbox.
func TestKeys(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, which has a user for each sandbox")
	}
	self := publicSelf(t)
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
