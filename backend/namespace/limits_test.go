//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/namespace"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// A sandbox that has used up its processes can be killed, closed, and hurts nobody else.
func TestForkBomb(t *testing.T) {
	b := newBackend(t, nil)
	cfg := backend.Config{Limits: backend.Limits{PIDs: 50}}
	sb := newSandbox(t, b, &sandbox.Options{Config: cfg})
	// Each shell forks until it cannot, and none ends.
	rec, err := sb.Run(t.Context(), sandbox.Command{
		Shell:   "i=0; while [ $i -lt 2000 ]; do sleep 60 & i=$((i+1)); done; wait",
		Timeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if rec.Err != nil {
		t.Errorf("the kill: %v", rec.Err)
	}
	if !strings.Contains(strings.ToLower(rec.Stderr.String()), "fork") {
		t.Errorf("2,000 processes could be made: %q", rec.Stderr.String())
	}
	if got := output(t, newSandbox(t, b, nil), "echo on"); got != "on\n" {
		t.Errorf("another sandbox prints %q", got)
	}
	if got := output(t, sb, "echo on"); got != "on\n" {
		t.Errorf("the next command prints %q", got)
	}
}

func TestForkBombOneNumber(t *testing.T) { asOrdinaryUser(t, "^TestForkBomb$") }
func TestForkBombSubIDs(t *testing.T)    { asUserWithSubIDs(t, "^TestForkBomb$") }

// Memory and processors are limited where Info has no word against it, and refused
// elsewhere.
func TestLimits(t *testing.T) {
	b := newBackend(t, nil)
	cfg := backend.Config{Limits: backend.Limits{Memory: 64 << 20, CPUs: 0.2}}
	if !b.Info().OOM {
		if _, err := b.Create(t.Context(), &cfg); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
		return
	}
	sb := newSandbox(t, b, &sandbox.Options{Config: cfg})
	rec, err := sb.Run(t.Context(), sandbox.Command{Shell: "exec tail /dev/zero", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if !rec.OOMKilled || rec.Status != sandbox.Completed {
		t.Errorf("a command that takes all memory: %s, killed for it: %t, %v", rec.Status, rec.OOMKilled, rec.Err)
	}
	rec, err = sb.Run(t.Context(), sandbox.Command{Shell: "while :; do :; done", Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if rec.Usage == nil || rec.Usage.UserTime+rec.Usage.SystemTime > time.Second {
		t.Errorf("of a fifth of a processor it had %+v in 2 s", rec.Usage)
	}
}

func TestLimitsOneNumber(t *testing.T) { asOrdinaryUser(t, "^TestLimits$") }

// Options that cannot hold are refused by New, with what is wrong.
func TestOptions(t *testing.T) {
	newBackend(t, nil)
	for _, test := range []struct {
		name string
		opts namespace.Options
		want string
	}{
		{"no-root", namespace.Options{Root: "/no/such"}, "Options.Root"},
		{"root-is-a-file", namespace.Options{Root: "/etc/passwd"}, "not a directory"},
		{"no-source", namespace.Options{Mounts: []backend.Mount{{Source: "/no/such", Target: "/x"}}}, "mount /no/such"},
		{"mount-over-ours", namespace.Options{Mounts: []backend.Mount{{Source: "/etc", Target: "/workspace"}}}, "own"},
		{"no-place", namespace.Options{Mounts: []backend.Mount{{Source: "/etc", Target: "/usr/no-such"}}}, "mkdir(/usr/no-such)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, err := namespace.New(&test.opts)
			if err == nil {
				closeIn(t, b.Close)
			}
			var lacks *namespace.Error
			if !errors.As(err, &lacks) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// What Options say of files holds inside.
func TestFiles(t *testing.T) {
	b := newBackend(t, &namespace.Options{
		Hide:    []string{"/etc/passwd", "/usr/share"},
		Mounts:  []backend.Mount{{Source: "/usr/share", Target: "/data/shown", ReadOnly: true}},
		TmpSize: 1 << 20,
		Env:     map[string]string{"FROM_OPTIONS": "yes"},
	})
	sb := newSandbox(t, b, nil)
	for _, test := range []struct{ name, text, want string }{
		{"hidden-file", "cat /etc/passwd", ""},
		{"hidden-directory", "ls /usr/share", ""},
		{"mount", "[ -d /data/shown/doc ] && ! touch /data/shown/x 2>/dev/null && echo read-only", "read-only\n"},
		{"small-tmp", "head -c 2000000 /dev/zero >/tmp/big 2>/dev/null || echo full", "full\n"},
		{"small-shm", "head -c 2000000 /dev/zero >/dev/shm/big 2>/dev/null || echo full", "full\n"},
		{"environment", "echo $FROM_OPTIONS $HOME $USER $TMPDIR", "yes /workspace user /tmp\n"},
		{"home-user", "echo one >/workspace/f; cat /home/user/f", "one\n"},
		{"host-name", "cat /proc/sys/kernel/hostname", "sandbox\n"},
		{"nothing-of-the-host", "ls /.host /root /mnt /srv /boot 2>/dev/null; ls /sys /run", "/run:\n\n/sys:\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := output(t, sb, test.text); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A directory is the root of a sandbox, whatever it has in the places of the sandbox's own.
func TestRoot(t *testing.T) {
	dir := rootWithShell(t)
	sb := newSandbox(t, newBackend(t, &namespace.Options{Root: dir}), nil)
	if got, want := output(t, sb, "echo /*; cat /hello; echo x >/workspace/f; echo x >/tmp/f; pwd"),
		"/bin /dev /hello /home /proc /run /sys /tmp /var /workspace\nhi\n/workspace\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A link of an image's does not lead the mounts of a sandbox to the machine's files.
func TestRootLeadsNowhere(t *testing.T) {
	dir, outside := rootWithShell(t), programtest.PublicDir(t)
	if err := os.Chmod(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	newBackend(t, &namespace.Options{Root: dir}) // says what the machine lacks
	source := filepath.Join(dir, "hello")
	for link, at := range map[string]string{"there": outside, "missing": filepath.Join(outside, "new")} {
		if err := os.Symlink("/.host"+at, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []backend.Mount{{Source: dir, Target: "/there/x"}, {Source: source, Target: "/there/x"}, {Source: dir, Target: "/there"}, {Source: source, Target: "/missing"}} {
		b, err := namespace.New(&namespace.Options{Root: dir, Mounts: []backend.Mount{m}})
		if err == nil {
			closeIn(t, b.Close)
		}
		var refused *namespace.Error
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "resolve("+m.Target) {
			t.Errorf("%s at %s: %v", m.Source, m.Target, err)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside there are %v, %v", entries, err)
	}
}

func TestRootLeadsNowhereOneNumber(t *testing.T) { asOrdinaryUser(t, "^TestRootLeadsNowhere$") }

// rootWithShell makes a directory with a static shell, what goes with it, and little else.
func rootWithShell(t *testing.T) string {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("it needs a static busybox, to make a root of")
	}
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	dir := programtest.PublicDir(t)
	for _, name := range []string{"bin", "proc", "workspace", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string][]byte{"bin/busybox": program, "hello": []byte("hi\n"), "workspace/old": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sh", "cat"} {
		if err := os.Symlink("busybox", filepath.Join(dir, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
