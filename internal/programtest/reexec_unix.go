//go:build unix

package programtest

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// AsUser runs tests of the caller's package again, as a user of that number, whose group
// has the same.
func AsUser(t *testing.T, uid int, pattern string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("it needs root, to become somebody else; the other tests are run by somebody else already")
	}
	cmd := exec.Command(PublicSelf(t), "-test.run", pattern, "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "TMPDIR="+OwnDir(t, uid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// PublicSelf copies the test's program to where others may execute it.
func PublicSelf(t testing.TB) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(PublicDir(t), "self.test")
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

// OwnDir makes a directory that is a user's own.
func OwnDir(t testing.TB, uid int) string {
	dir := PublicDir(t)
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// PublicDir makes a directory that everybody can reach, as t.TempDir's is not.
func PublicDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "sandbox-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
