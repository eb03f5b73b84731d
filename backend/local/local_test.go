//go:build unix

package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/local"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

func TestUnsupportedSettings(t *testing.T) {
	b := newBackend(t, nil)
	tests := []struct {
		name string
		cfg  backend.Config
	}{
		{"image", backend.Config{Image: "debian"}},
		{"user", backend.Config{User: "root"}},
		{"network", backend.Config{Network: "none"}},
		{"mounts", backend.Config{Mounts: []backend.Mount{{Source: "/", Target: "/host"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.ID = "sbx_1"
			if _, err := b.Create(t.Context(), &tt.cfg); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("got %v", err)
			}
		})
	}
	if !b.Info().OOM {
		for _, limits := range []backend.Limits{{Memory: 1 << 30}, {CPUs: 0.5}, {PIDs: 10}} {
			if _, err := b.Create(t.Context(), &backend.Config{ID: "sbx_1", Limits: limits}); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%+v: %v", limits, err)
			}
		}
	}
	none := backend.Limits{Memory: -1, CPUs: -1, PIDs: -1}
	if _, err := b.Create(t.Context(), &backend.Config{ID: "sbx_1", Network: "host", Limits: none}); err != nil {
		t.Errorf("no limits, and the host's network: %v", err)
	}
}

func TestDirectoryNames(t *testing.T) {
	i := newInstance(t, newBackend(t, nil), "sbx_1")
	work := strings.TrimSpace(output(t, i, backend.Spec{Shell: "mkdir sub workspace; pwd"}))
	tests := []struct{ dir, want string }{
		{"", work},
		{".", work},
		{"sub", work + "/sub"},
		{"/workspace", work},
		{"/workspace/", work},
		{"/workspace/sub", work + "/sub"},
		{"//workspace//sub/../sub", work + "/sub"},
		{"/home/user", work},
		{"/home/user/sub", work + "/sub"},
		{"workspace", work + "/workspace"},
		{"/", "/"},
		{"/tmp", "/tmp"},
	}
	for _, tt := range tests {
		if got := output(t, i, backend.Spec{Argv: []string{"pwd", "-P"}, Dir: tt.dir}); got != tt.want+"\n" {
			t.Errorf("directory %q: got %q, want %q", tt.dir, got, tt.want)
		}
	}
	for _, dir := range []string{"/workspaces", "/home/users", "/workspace/none"} {
		_, err := i.Start(t.Context(), &backend.Spec{Shell: "true", Dir: dir})
		if !errors.Is(err, backend.BadDirectory) {
			t.Errorf("directory %q: %v", dir, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	i := newInstance(t, newBackend(t, nil), "sbx_1")
	got := output(t, i, backend.Spec{
		Shell: `[ "$HOME" = "$PWD" ] && [ -w "$TMPDIR" ] && [ "$TMPDIR" != "$HOME" ] && env | sort | grep -v -e ^HOME= -e ^PWD= -e ^TMPDIR= -e ^USER= -e ^LOGNAME= -e ^_=`,
		Env:   []string{"A=b", "LANG=C"},
	})
	want := "A=b\nLANG=C\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOnlyTheSandboxsUser(t *testing.T) {
	i := newInstance(t, newBackend(t, nil), "sbx_1")
	own := strings.Fields(output(t, i, backend.Spec{Shell: "id -u; echo $USER"}))
	for _, user := range append(own, "") {
		if out := output(t, i, backend.Spec{Shell: "id -u", User: user}); out != own[0]+"\n" {
			t.Errorf("user %q: %q", user, out)
		}
	}
	for _, user := range []string{"daemon", "1", "no-such"} {
		if _, err := i.Start(t.Context(), &backend.Spec{Shell: "id -u", User: user}); !errors.Is(err, backend.BadUser) {
			t.Errorf("user %q: %v", user, err)
		}
	}
}

func TestGivenDirectory(t *testing.T) {
	dir := filepath.Join(programtest.PublicDir(t), "a", "b")
	b := newBackend(t, &local.Options{Dir: dir})
	i := newInstance(t, b, "sbx_1")
	if out := output(t, i, backend.Spec{Shell: "pwd"}); !strings.HasPrefix(out, dir+"/") {
		t.Errorf("the sandbox is in %q", out)
	}
	if err := i.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(dir + "/*/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left after Close: %v, error %v", left, err)
	}
}

func TestDirectoriesOfDeadServices(t *testing.T) {
	dir := programtest.PublicDir(t)
	alive := newBackend(t, &local.Options{Dir: dir})
	newInstance(t, alive, "sbx_1")
	dead := filepath.Join(dir, "sandbox-local-dead", "sbx_2", "work")
	if err := os.MkdirAll(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	newBackend(t, &local.Options{Dir: dir})
	if left, _ := filepath.Glob(dir + "/*/*"); len(left) != 1 || filepath.Base(left[0]) != "sbx_1" {
		t.Errorf("sandboxes after a new service has come: %v, want sbx_1", left)
	}
}

// TestHostileTrees checks that a sandbox is removed whatever its commands have
// made of its directory.
func TestHostileTrees(t *testing.T) {
	dir := programtest.PublicDir(t)
	b := newBackend(t, &local.Options{Dir: filepath.Join(dir, "base")})
	i := newInstance(t, b, "sbx_1")
	out := output(t, i, backend.Spec{Shell: `
mkdir -p closed/inner/more 1 2 3; touch closed/file closed/inner/file 1/1 2/1; mkdir closed/inner/1 3/1 3/2
ln -s / closed/root; ln -s .. closed/inner/up; mkfifo closed/pipe
chmod 0 closed/inner/more closed/inner closed
deep=` + strings.Repeat("d/", 1500) + `
for top in a b c; do mkdir $top; (cd $top; mkdir -p $deep); [ -e last ] && mv last $top/$deep; mv $top last; done
cd "$HOME/.."; chmod 0 work . 2>/dev/null`})
	if out != "" {
		t.Errorf("output %.200q", out)
	}
	if err := i.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(dir + "/base/*/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Error(err)
	}
}

func TestHostileTreesOrdinaryUser(t *testing.T) { asOrdinaryUser(t, "^TestHostileTrees$") }
