//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-go/sandbox/backend/namespace"
)

// openRoot is rootWithShell's as package image unpacks it, everybody may do what the owner may,
// with all of busybox's programs.
func openRoot(t *testing.T) string {
	dir := rootWithShell(t)
	programs, err := exec.Command("busybox", "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(programs)) {
		os.Symlink("busybox", filepath.Join(dir, "bin", name)) // or it is there
	}
	for _, name := range []string{"etc", "usr/bin"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	err = filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err == nil && e.Type()&os.ModeSymlink == 0 {
			err = os.Chmod(name, 0o777)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// With Options.Overlay commands may write everywhere, and nobody else sees it.
func TestOverlay(t *testing.T) {
	newBackend(t, nil) // says what the machine lacks
	dir := openRoot(t)
	if err := os.Symlink("/etc", filepath.Join(dir, "run")); err != nil { // in a place of the sandbox's own
		t.Fatal(err)
	}
	for _, size := range []int64{0, 8 << 20} {
		b := newBackend(t, &namespace.Options{Root: dir, Overlay: true, WriteSize: size})
		sb, other := newSandbox(t, b, nil), newSandbox(t, b, nil)
		for _, test := range []struct{ text, want string }{
			{"echo new >/new && mkdir /opt && echo x >/etc/f && echo x >/usr/f && cat /new /etc/f", "new\nx\n"},
			{"echo bye >/hello && cat /hello", "bye\n"},
			{"busybox rm /bin/cat && ls /bin/cat 2>&1", "ls: /bin/cat: No such file or directory\n"},
			{"echo x >/workspace/f && echo x >/tmp/f && echo x >/home/user/g && busybox ls /workspace", "f\ng\n"},
			{"echo x >/proc/sys/kernel/hostname; echo x >/dev/new; busybox mknod /n c 1 3", "denied"},
			{"busybox ls /run", ""},
		} {
			if got := output(t, sb, test.text); got != test.want && (test.want != "denied" || strings.Count(got, "\n") != 3) {
				t.Errorf("%s: got %q, want %q", test.text, got, test.want)
			}
		}
		if got, want := output(t, other, "cat /hello; ls /bin/cat /new"), "hi\n/bin/cat\nls: /new: No such file or directory\n"; got != want {
			t.Errorf("another sandbox has %q, want %q", got, want)
		}
		if got := output(t, sb, "busybox head -c 20000000 /dev/zero >/big 2>/dev/null || echo full"); (got == "full\n") != (size > 0) {
			t.Errorf("of %d bytes it can write 20,000,000: %q", size, got)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "hello")); err != nil || string(b) != "hi\n" {
		t.Errorf("the machine has %q, %v", b, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a new file: %v", err)
	}
}

func TestOverlayOneNumber(t *testing.T) { asOrdinaryUser(t, "^TestOverlay$") }
func TestOverlaySubIDs(t *testing.T)    { asUserWithSubIDs(t, "^TestOverlay$") }

// Nothing of the machine's is to be written to.
func TestOverlayNeedsRoot(t *testing.T) {
	_, err := namespace.New(&namespace.Options{Overlay: true})
	var refused *namespace.Error
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "Options.Root") {
		t.Errorf("got %v", err)
	}
}

// What a sandbox writes is bounded where its Info has no word against it: bytes, and files
// without any.
func TestWriteSize(t *testing.T) {
	newBackend(t, nil)
	for _, size := range []int64{0, 1 << 20} {
		b := newBackend(t, &namespace.Options{WriteSize: size})
		if said := strings.Contains(strings.Join(b.Info().Caveats, "\n"), "limits what a sandbox writes"); said != (size == 0) {
			t.Errorf("with a size of %d it has the caveats %q", size, b.Info().Caveats)
		}
		sb := newSandbox(t, b, nil)
		for _, text := range []string{
			"head -c 2000000 /dev/zero >big 2>/dev/null || echo full; rm big",
			"i=0; while [ $i -lt 400 ]; do : >f$i || exit; i=$((i+1)); done 2>&1 | grep -q space && echo full",
		} {
			if got := output(t, sb, text); (got == "full\n") != (size > 0) {
				t.Errorf("of %d bytes, %s: %q", size, text, got)
			}
		}
		if err := sb.Files().WriteFile(t.Context(), "a", []byte("1"), nil); (err != nil) != (size > 0) {
			t.Errorf("of %d bytes, a file: %v", size, err)
		}
	}
}

func TestWriteSizeOneNumber(t *testing.T) { asOrdinaryUser(t, "^TestWriteSize$") }
func TestWriteSizeSubIDs(t *testing.T)    { asUserWithSubIDs(t, "^TestWriteSize$") }
