//go:build unix

package local_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// ordinary is the number of a user who has nothing, in no range of sandboxes.
const ordinary = 39_999

// asOrdinaryUser runs tests of this package again, as somebody who is not root.
func asOrdinaryUser(t *testing.T, pattern string) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, to become somebody else; the other tests are run by somebody else already")
	}
	cmd := exec.Command(publicSelf(t), "-test.run", pattern, "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "TMPDIR="+ownDir(t, ordinary))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A service that ignores signals, as nohup has it ignore SIGHUP, has commands that do not.
func TestIgnoredSignals(t *testing.T) {
	const cases = "^TestConformance(ProcessGroups)?$/^(a-command-runs|every-signal-arrives|ctrl-c-interrupts)$"
	cmd := exec.Command("/bin/sh", "-c", `trap "" HUP INT; exec "$@"`, "sh", os.Args[0], "-test.run", cases, "-test.v")
	out, err := cmd.CombinedOutput()
	if err != nil || bytes.Count(out, []byte("PASS: TestConformance")) < 6 {
		t.Errorf("%v\n%s", err, out)
	}
}

// publicSelf copies the test's program to where others may execute it.
func publicSelf(t *testing.T) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(publicDir(t), "local.test")
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// ownDir makes a directory that is a user's own.
func ownDir(t *testing.T, uid int) string {
	dir := publicDir(t)
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// publicDir makes a directory that everybody can reach, as t.TempDir's is not.
func publicDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "local-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
