//go:build linux

package proc_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/proc"
)

const searchPath = "PATH=/usr/bin:/bin"

// run runs c to its end, as a process group.
func run(t *testing.T, c proc.Command, stdin io.Reader) (stdout string, exit backend.Exit) {
	t.Helper()
	var out, errs bytes.Buffer
	if c.Dir == "" {
		c.Dir = "/"
	}
	g, err := proc.StartGroup(&c, &backend.Spec{Stdin: stdin, Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err = g.Exit(); err != nil {
		t.Fatal(err)
	}
	<-g.OutputOver()
	<-g.Empty()
	if errs.Len() > 0 {
		t.Errorf("stderr: %.300q", errs.String())
	}
	return out.String(), exit
}

func TestShellTextOfAnyLength(t *testing.T) {
	for _, size := range []int{0, 119 << 10, 121 << 10, 200 << 10, 1 << 20} {
		// Three bytes a character, so that some would be cut; the text sees no
		// arguments, and its stdin is left to it.
		comment := "# " + strings.Repeat("€", size/3) + "\n"
		text := comment + "read x; echo \"$#,$1,$x\"\n"
		out, exit := run(t, proc.Command{Shell: text, Env: []string{searchPath}}, strings.NewReader("in\n"))
		if out != "0,,in\n" || exit.Code != 0 {
			t.Errorf("text of %d bytes: %.100q, exit %+v", len(text), out, exit)
		}
	}
}

func TestStartReasons(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "echo hi\n", 0o644)
	script := write("script", "#!/no/such/interpreter\n", 0o755)
	binary := write("binary", "\x7fnot a program", 0o755)
	long := strings.Repeat("x", 200<<10)
	tests := []struct {
		name string
		c    proc.Command
		want backend.Reason
		path string
	}{
		{"missing-path", proc.Command{Argv: []string{"/no/such"}}, backend.NotFound, "/no/such"},
		{"missing-name", proc.Command{Argv: []string{"no-such"}}, backend.NotFound, "no-such"},
		{"empty-name", proc.Command{Argv: []string{""}}, backend.NotFound, ""},
		{"below-a-file", proc.Command{Argv: []string{plain + "/x"}}, backend.NotFound, plain + "/x"},
		{"directory", proc.Command{Argv: []string{dir}}, backend.IsDirectory, dir},
		{"no-x", proc.Command{Argv: []string{plain}}, backend.NotExecutable, plain},
		{"no-x-in-path", proc.Command{Argv: []string{"plain"}, Env: []string{"PATH=" + dir}}, backend.NotExecutable, plain},
		{"no-format", proc.Command{Argv: []string{binary}}, backend.NotExecutable, binary},
		{"relative", proc.Command{Argv: []string{"./script"}, Dir: dir}, backend.InterpreterNotFound, "./script"},
		{"interpreter", proc.Command{Argv: []string{script}}, backend.InterpreterNotFound, script},
		{"missing-directory", proc.Command{Argv: []string{"/bin/true"}, Dir: "/no/such"}, backend.BadDirectory, "/no/such"},
		{"directory-is-a-file", proc.Command{Shell: "true", Dir: plain}, backend.BadDirectory, plain},
		{"directory-is-a-descriptor", proc.Command{Shell: "true", Dir: "/proc/self/fd/7"}, backend.BadDirectory, "/proc/self/fd/7"},
		{"too-long", proc.Command{Argv: []string{"/bin/true", long}}, backend.TooLong, "/bin/true"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.c.Dir == "" {
				tt.c.Dir = "/"
			}
			_, err := proc.StartGroup(&tt.c, &backend.Spec{Stdout: io.Discard, Stderr: io.Discard})
			var e *backend.StartError
			if !errors.As(err, &e) || e.Reason != tt.want || e.Path != tt.path {
				t.Errorf("got %#v, want %s: %s", err, tt.path, tt.want)
			}
		})
	}
}

// TestStartReasonsAreTheUsers checks that it is the command's user who is looked
// at: root could have entered and executed all of it.
func TestStartReasonsAreTheUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, to start something as somebody else")
	}
	dir := t.TempDir() // closed to others
	if err := os.WriteFile(filepath.Join(dir, "x"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	other := &syscall.Credential{Uid: 39_999, Gid: 39_999}
	tests := []struct {
		name string
		c    proc.Command
		want backend.Reason
	}{
		{"directory", proc.Command{Shell: "true", Dir: dir}, backend.BadDirectory},
		{"program", proc.Command{Argv: []string{dir + "/x"}, Dir: "/"}, backend.NotExecutable},
		{"in-path", proc.Command{Argv: []string{"x"}, Dir: "/", Env: []string{"PATH=" + dir}}, backend.NotExecutable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.c.Credential = other
			_, err := proc.StartGroup(&tt.c, &backend.Spec{Stdout: io.Discard, Stderr: io.Discard})
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestGroupKill(t *testing.T) {
	var out bytes.Buffer
	g, err := proc.StartGroup(&proc.Command{
		Shell: "trap '' TERM INT HUP; sleep 100 & sleep 100", Dir: "/", Env: []string{searchPath},
	}, &backend.Spec{Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	exit, err := g.Exit()
	if err != nil || exit.Signal != backend.SIGKILL {
		t.Errorf("exit %+v, error %v", exit, err)
	}
	<-g.OutputOver()
	if err := g.Signal(t.Context(), backend.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a signal after the end: %v", err)
	}
	if err := g.Kill(); err != nil {
		t.Errorf("another kill: %v", err)
	}
}
