//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sandbox-go/sandbox/internal/programtest"
)

// The numbers of two users who have nothing, in no range of sandboxes. One of them is given
// a range for tests.
const (
	ordinary = 39_998
	withSubs = 39_997
)

// asOrdinaryUser runs tests of this package again, as somebody who is not root.
func asOrdinaryUser(t *testing.T, pattern string) { programtest.AsUser(t, ordinary, pattern) }

// asUserWithSubIDs runs tests of this package again, as somebody who is not root and whom
// /etc/subuid and /etc/subgid give a range of numbers. That is so for these tests alone: they
// have files of their own in the place of the machine's.
func asUserWithSubIDs(t *testing.T, pattern string) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, to become somebody else")
	}
	for _, program := range []string{"newuidmap", "newgidmap", "mount", "setpriv"} {
		if _, err := exec.LookPath(program); err != nil {
			lacking(t, err)
		}
	}
	dir := programtest.PublicDir(t)
	script := "set -e\n"
	for name, content := range map[string]string{
		"passwd": fmt.Sprintf("root:x:0:0::/:/bin/sh\nsubs:x:%d:%[1]d::/:/bin/sh\n", withSubs),
		"subuid": "subs:3000000:1000\n",
		"subgid": "subs:4000000:1000\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		script += fmt.Sprintf("mount --bind %s /etc/%s\n", path, name)
	}
	script += fmt.Sprintf("exec setpriv --reuid %d --regid %[1]d --clear-groups -- \"$@\"\n", withSubs)
	cmd := exec.Command("/bin/sh", "-c", script, "sh", programtest.PublicSelf(t), "-test.run", pattern, "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "TMPDIR="+programtest.OwnDir(t, withSubs), "XDG_RUNTIME_DIR=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
