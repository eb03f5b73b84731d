package files_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/files"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "files" {
		os.Exit(files.Main())
	}
	goleak.VerifyTestMain(m)
}

// process is a backend.Process over os/exec.
type process struct {
	cmd  *exec.Cmd
	over chan struct{}
	exit backend.Exit
}

func (p *process) Exited() <-chan struct{}     { return p.over }
func (p *process) Exit() (backend.Exit, error) { <-p.over; return p.exit, nil }
func (p *process) OutputOver() <-chan struct{} { return p.over }
func (p *process) DiscardOutput()              {}
func (p *process) Signal(_ context.Context, s backend.Signal) error {
	return p.cmd.Process.Signal(syscall.Signal(s))
}
func (p *process) Kill() error { p.cmd.Process.Kill(); <-p.over; return nil }

// starter starts processes in the directory that it names.
func starter(dir string) func(context.Context, *backend.Spec) (backend.Process, error) {
	return func(_ context.Context, spec *backend.Spec) (backend.Process, error) {
		cmd := exec.Command(spec.Argv[0], spec.Argv[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, spec.Stdout, spec.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		go func() {
			io.Copy(in, spec.Stdin)
			in.Close()
		}()
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		p := &process{cmd: cmd, over: make(chan struct{})}
		go func() {
			cmd.Wait()
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if status.Signaled() {
				p.exit.Signal = backend.Signal(status.Signal())
			} else {
				p.exit.Code = status.ExitStatus()
			}
			close(p.over)
		}()
		return p, nil
	}
}

// through returns a Client whose processes are this test's program, until the test ends.
func through(t *testing.T, start func(context.Context, *backend.Spec) (backend.Process, error)) *files.Client {
	c := files.NewClient(start, []string{os.Args[0], "files"})
	t.Cleanup(c.Close)
	return c
}

// A filer has a method for each operation.
type filer struct{ backend.Filer }

func (f filer) Stat(ctx context.Context, name string) (info backend.FileInfo, err error) {
	err = f.File(ctx, &backend.FileRequest{Op: backend.FileStat, Name: name, Found: func(i backend.FileInfo) bool { info = i; return true }})
	return info, err
}

func (f filer) List(ctx context.Context, name string, recursive bool) (all []backend.FileInfo, err error) {
	err = f.File(ctx, &backend.FileRequest{Op: backend.FileList, Flags: recursively(recursive), Name: name, Found: func(i backend.FileInfo) bool {
		all = append(all, i)
		return true
	}})
	return all, err
}

func recursively(recursive bool) backend.FileFlags {
	if recursive {
		return backend.FileRecursive
	}
	return 0
}

func (f filer) Read(ctx context.Context, name string, offset, limit int64) (string, error) {
	var b strings.Builder
	err := f.File(ctx, &backend.FileRequest{Op: backend.FileRead, Name: name, Offset: offset, Limit: limit, Output: &b})
	return b.String(), err
}

func (f filer) Write(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error {
	return f.File(ctx, &backend.FileRequest{Op: backend.FileWrite, Name: name, Content: content, Mode: mode})
}

func (f filer) Mkdir(ctx context.Context, name string, mode fs.FileMode) error {
	return f.File(ctx, &backend.FileRequest{Op: backend.FileMkdir, Name: name, Mode: mode})
}

func (f filer) Remove(ctx context.Context, name string, recursive bool) error {
	return f.File(ctx, &backend.FileRequest{Op: backend.FileRemove, Flags: recursively(recursive), Name: name})
}

func (f filer) Rename(ctx context.Context, from, to string) error {
	return f.File(ctx, &backend.FileRequest{Op: backend.FileRename, Name: from, To: to})
}

func (f filer) ReadTar(ctx context.Context, name string) ([]byte, error) {
	var b bytes.Buffer
	err := f.File(ctx, &backend.FileRequest{Op: backend.FileReadTar, Name: name, Output: &b})
	return b.Bytes(), err
}

func (f filer) WriteTar(ctx context.Context, name string, archive io.Reader) error {
	return f.File(ctx, &backend.FileRequest{Op: backend.FileWriteTar, Name: name, Content: archive})
}

// each runs f on every way to the files of a directory.
func each(t *testing.T, f func(t *testing.T, dir string, fl filer)) {
	t.Run("root", func(t *testing.T) {
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		f(t, dir, filer{files.In(root, dir)})
	})
	t.Run("process-with-root", func(t *testing.T) {
		dir := t.TempDir()
		f(t, dir, filer{through(t, starter(dir)).Below(".")})
	})
	t.Run("process-everywhere", func(t *testing.T) {
		dir := t.TempDir()
		f(t, dir, filer{through(t, starter(dir))})
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCause(t *testing.T, what string, err, cause error) {
	t.Helper()
	var p *fs.PathError
	if !errors.Is(err, cause) || !errors.As(err, &p) {
		t.Errorf("%s gave %v, want a *fs.PathError of %q", what, err, cause)
	}
}

func read(t *testing.T, fl filer, name string, offset, limit int64) string {
	t.Helper()
	content, err := fl.Read(t.Context(), name, offset, limit)
	must(t, err)
	return content
}

func readError(t *testing.T, fl filer, name string) error {
	t.Helper()
	_, err := fl.Read(t.Context(), name, 0, 0)
	return err
}

func TestWriteAndRead(t *testing.T) {
	each(t, func(t *testing.T, dir string, fl filer) {
		ctx := t.Context()
		big := strings.Repeat("0123456789abcdef", 1<<17)
		must(t, fl.Write(ctx, "f", strings.NewReader(big), 0o640))
		info, err := fl.Stat(ctx, "f")
		must(t, err)
		if info.Path != "f" || info.Size != int64(len(big)) || info.Mode != 0o640 || time.Since(info.ModTime) > time.Minute {
			t.Errorf("Stat = %+v", info)
		}
		for _, tt := range []struct {
			offset, limit int64
			want          string
		}{{0, 0, big}, {3, 4, "3456"}, {int64(len(big)) - 2, 10, "ef"}, {int64(len(big)) + 5, 0, ""}} {
			if got := read(t, fl, "f", tt.offset, tt.limit); got != tt.want {
				t.Errorf("Read from %d, at most %d: %d bytes, want %d", tt.offset, tt.limit, len(got), len(tt.want))
			}
		}
		must(t, os.Symlink("f", dir+"/link"))
		must(t, fl.Write(ctx, "link", strings.NewReader("new"), 0o755))
		if got := read(t, fl, "f", 0, 0); got != "new" {
			t.Errorf("a write through a link gave %q", got)
		}
		if info, err := os.Lstat(dir + "/link"); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("a write through a link replaced the link: %v", err)
		}
	})
}

func TestFailedWriteLeavesTheOldContent(t *testing.T) {
	each(t, func(t *testing.T, dir string, fl filer) {
		must(t, fl.Write(t.Context(), "f", strings.NewReader("old"), 0o644))
		broken := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("broken")))
		if err := fl.Write(t.Context(), "f", broken, 0o644); err == nil {
			t.Error("Write of a content that fails gave no error")
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := fl.Write(ctx, "f", &ending{cancel: cancel}, 0o644); !errors.Is(err, context.Canceled) {
			t.Errorf("Write gave %v, want its context's error", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		if err := fl.WriteTar(ctx, ".", &ending{cancel: cancel}); !errors.Is(err, context.Canceled) {
			t.Errorf("WriteTar gave %v, want its context's error", err)
		}
		if got := read(t, fl, "f", 0, 0); got != "old" {
			t.Errorf("a failed write left %q", got)
		}
		entries, err := os.ReadDir(dir)
		must(t, err)
		if len(entries) != 1 {
			t.Errorf("failed writes left %v", entries)
		}
	})
}

// ending is a content of which a half comes, and then its context ends.
type ending struct {
	begun  bool
	cancel func()
}

func (e *ending) Read(p []byte) (int, error) {
	if !e.begun {
		e.begun = true
		return copy(p, "half"), nil
	}
	e.cancel()
	return 0, context.Canceled
}

func list(t *testing.T, fl filer, name string, recursive bool) []string {
	t.Helper()
	var got []string
	all, err := fl.List(t.Context(), name, recursive)
	must(t, err)
	for _, info := range all {
		line := info.Mode.Type().String() + " " + info.Path
		if info.Target != "" {
			line += " -> " + info.Target
		}
		got = append(got, line)
	}
	return got
}

func TestDirectories(t *testing.T) {
	each(t, func(t *testing.T, dir string, fl filer) {
		ctx := t.Context()
		must(t, fl.Mkdir(ctx, "a/b", 0o755))
		must(t, fl.Mkdir(ctx, "a/b", 0o755))
		must(t, fl.Write(ctx, "a/b/\xff\n \"", strings.NewReader("x"), 0o644))
		must(t, fl.Write(ctx, "a/z", strings.NewReader("x"), 0o644))
		must(t, os.Symlink("../..", dir+"/a/b/up"))
		if diff := cmp.Diff([]string{"d--------- b", "---------- z"}, list(t, fl, "a", false)); diff != "" {
			t.Errorf("a list (-want +got):\n%s", diff)
		}
		want := []string{"d--------- a", "d--------- a/b", "L--------- a/b/up -> ../..", "---------- a/b/\xff\n \"", "---------- a/z"}
		if diff := cmp.Diff(want, list(t, fl, ".", true)); diff != "" {
			t.Errorf("a recursive list (-want +got):\n%s", diff)
		}
		must(t, fl.Rename(ctx, "a/z", "y"))
		wantCause(t, "Remove of a directory with content", fl.Remove(ctx, "a", false), backend.ErrNotEmpty)
		must(t, fl.Remove(ctx, "a/b/up", false))
		must(t, fl.Remove(ctx, "a", true))
		if diff := cmp.Diff([]string{"---------- y"}, list(t, fl, ".", true)); diff != "" {
			t.Errorf("what is left (-want +got):\n%s", diff)
		}
	})
}

func TestTypedErrors(t *testing.T) {
	each(t, func(t *testing.T, dir string, fl filer) {
		ctx := t.Context()
		must(t, os.Mkdir(dir+"/d", 0o755))
		must(t, os.WriteFile(dir+"/f", nil, 0o644))
		must(t, syscall.Mkfifo(dir+"/fifo", 0o666))
		must(t, os.Symlink("loop", dir+"/loop"))
		socket, err := net.Listen("unix", dir+"/socket")
		must(t, err)
		defer socket.Close()
		_, err = fl.Stat(ctx, "no")
		wantCause(t, "Stat of nothing", err, fs.ErrNotExist)
		wantCause(t, "Read of nothing", readError(t, fl, "no"), fs.ErrNotExist)
		wantCause(t, "Read of a directory", readError(t, fl, "d"), backend.ErrIsDirectory)
		wantCause(t, "Read of a FIFO", readError(t, fl, "fifo"), backend.ErrSpecialFile)
		wantCause(t, "Read of a socket", readError(t, fl, "socket"), backend.ErrSpecialFile)
		wantCause(t, "Read below a file", readError(t, fl, "f/x"), backend.ErrNotDirectory)
		write := func(name string) error { return fl.Write(ctx, name, strings.NewReader("x"), 0o644) }
		wantCause(t, "Write to a FIFO", write("fifo"), backend.ErrSpecialFile)
		wantCause(t, "Write to a socket", write("socket"), backend.ErrSpecialFile)
		wantCause(t, "Write to a directory", write("d"), backend.ErrIsDirectory)
		wantCause(t, "Write to a name with a slash", write("new/"), backend.ErrIsDirectory)
		wantCause(t, "Write into no directory", write("no/x"), fs.ErrNotExist)
		wantCause(t, "Mkdir over a file", fl.Mkdir(ctx, "f", 0o755), backend.ErrNotDirectory)
		wantCause(t, "Remove of nothing", fl.Remove(ctx, "no", false), fs.ErrNotExist)
		wantCause(t, "recursive Remove of nothing", fl.Remove(ctx, "no", true), fs.ErrNotExist)
		must(t, os.MkdirAll(dir+"/full/sub", 0o755))
		for _, name := range []string{".", "./", "full/.", "full/..", "full/sub/../..", "full/sub/.."} {
			wantCause(t, "Remove of "+name, fl.Remove(ctx, name, true), fs.ErrInvalid)
		}
		if _, err := os.Stat(dir + "/full/sub"); err != nil {
			t.Errorf("a Remove that was refused has removed something: %v", err)
		}
		wantCause(t, "Rename of a directory into itself", fl.Rename(ctx, "full", "full/sub/x"), fs.ErrInvalid)
		err = fl.Rename(ctx, "f", "no/x")
		wantCause(t, "Rename into no directory", err, fs.ErrNotExist)
		if !strings.Contains(err.Error(), "no/x") {
			t.Errorf("Rename into no directory blames the wrong name: %v", err)
		}
		wantCause(t, "Rename of nothing", fl.Rename(ctx, "no", "x"), fs.ErrNotExist)
		wantCause(t, "Write to a loop of links", write("loop"), backend.ErrLinkLoop)
		wantCause(t, "Read of a loop of links", readError(t, fl, "loop"), backend.ErrLinkLoop)
		_, err = fl.List(ctx, "f", false)
		wantCause(t, "List of a file", err, backend.ErrNotDirectory)
		if _, err := fl.ReadTar(ctx, "fifo"); !errors.Is(err, backend.ErrSpecialFile) {
			t.Errorf("ReadTar of a FIFO gave %v", err)
		}
	})
}

func TestNothingLeadsOutOfARoot(t *testing.T) {
	outside := t.TempDir()
	must(t, os.WriteFile(outside+"/secret", []byte("secret"), 0o666))
	each(t, func(t *testing.T, dir string, fl filer) {
		if strings.HasSuffix(t.Name(), "everywhere") {
			t.Skip("there is no outside")
		}
		ctx := t.Context()
		must(t, os.Symlink(outside, dir+"/abs"))
		rel, err := filepath.Rel(dir, outside)
		must(t, err)
		must(t, os.Symlink(rel, dir+"/rel"))
		must(t, os.Symlink(outside+"/new", dir+"/dangling"))
		for _, name := range []string{outside + "/secret", rel + "/secret", "../x", "abs/secret", "rel/secret", "abs/../secret"} {
			wantCause(t, "Read of "+name, readError(t, fl, name), backend.ErrOutside)
			wantCause(t, "Write of "+name, fl.Write(ctx, name, strings.NewReader("x"), 0o644), backend.ErrOutside)
			wantCause(t, "Remove of "+name, fl.Remove(ctx, name, true), backend.ErrOutside)
			wantCause(t, "Mkdir of "+name, fl.Mkdir(ctx, name+"/d", 0o755), backend.ErrOutside)
		}
		wantCause(t, "Write through a dangling link", fl.Write(ctx, "dangling", strings.NewReader("x"), 0o644), backend.ErrOutside)
		wantCause(t, "Rename out", fl.Rename(ctx, "dangling", "../out"), backend.ErrOutside)
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		must(t, w.WriteHeader(&tar.Header{Name: "abs/new", Typeflag: tar.TypeReg}))
		must(t, w.Close())
		wantCause(t, "WriteTar through a link", fl.WriteTar(ctx, ".", &archive), backend.ErrOutside)
		entries, err := os.ReadDir(outside)
		must(t, err)
		if len(entries) != 1 {
			t.Errorf("outside there is now %v", entries)
		}
	})
}

func TestTar(t *testing.T) {
	each(t, func(t *testing.T, dir string, fl filer) {
		ctx := t.Context()
		must(t, fl.Mkdir(ctx, "src/sub/empty", 0o755))
		big := strings.Repeat("x", 1<<20)
		must(t, fl.Write(ctx, "src/sub/big", strings.NewReader(big), 0o600))
		must(t, fl.Write(ctx, "src/\xffname", strings.NewReader("y"), 0o755))
		must(t, os.Symlink("sub/big", dir+"/src/link"))
		must(t, os.Symlink("/etc/passwd", dir+"/src/abs"))
		must(t, syscall.Mkfifo(dir+"/src/fifo", 0o644))
		must(t, os.Chmod(dir+"/src/sub", 0o555))
		defer os.Chmod(dir+"/src/sub", 0o755)

		archive, err := fl.ReadTar(ctx, "src")
		must(t, err)
		must(t, fl.WriteTar(ctx, "dst", bytes.NewReader(archive)))
		defer os.Chmod(dir+"/dst/sub", 0o755)
		want := list(t, fl, "src", true)
		for i, line := range want {
			if strings.HasSuffix(line, " fifo") {
				want = append(want[:i], want[i+1:]...)
				break
			}
		}
		if diff := cmp.Diff(want, list(t, fl, "dst", true)); diff != "" {
			t.Errorf("unpacked (-want +got):\n%s", diff)
		}
		if got := read(t, fl, "dst/sub/big", 0, 0); got != big {
			t.Errorf("the big file has %d bytes", len(got))
		}
		for name, mode := range map[string]fs.FileMode{"dst/sub": fs.ModeDir | 0o555, "dst/sub/big": 0o600, "dst/\xffname": 0o755} {
			if info, err := fl.Stat(ctx, name); err != nil || info.Mode != mode {
				t.Errorf("%q has mode %v, %v; want %v", name, info.Mode, err, mode)
			}
		}
		must(t, fl.WriteTar(ctx, "dst2", bytes.NewReader(archive)))
		defer os.Chmod(dir+"/dst2/sub", 0o755)
		wantCause(t, "WriteTar of half an archive", fl.WriteTar(ctx, "dst3", bytes.NewReader(archive[:len(archive)/2])), backend.ErrArchive)
		wantCause(t, "WriteTar of no archive", fl.WriteTar(ctx, "dst4", strings.NewReader(big)), backend.ErrArchive)
		os.Chmod(dir+"/dst3/sub", 0o755)
	})
}

func TestTarRefusesToLeadOut(t *testing.T) {
	each(t, func(t *testing.T, dir string, fl filer) {
		must(t, os.MkdirAll(dir+"/other", 0o755))
		for name, entries := range map[string][]tar.Header{
			"dots":           {{Name: "../x", Typeflag: tar.TypeReg}},
			"absolute":       {{Name: "/x", Typeflag: tar.TypeReg}},
			"through-a-link": {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../other"}, {Name: "l/x", Typeflag: tar.TypeReg}},
			"hard-link":      {{Name: "x", Typeflag: tar.TypeLink, Linkname: "../f"}},
			"device":         {{Name: "x", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
			"fifo":           {{Name: "x", Typeflag: tar.TypeFifo}},
		} {
			must(t, os.WriteFile(dir+"/f", nil, 0o644))
			var archive bytes.Buffer
			w := tar.NewWriter(&archive)
			for _, h := range entries {
				must(t, w.WriteHeader(&h))
			}
			must(t, w.Close())
			if err := fl.WriteTar(t.Context(), "dst", &archive); err == nil {
				t.Errorf("%s: no error", name)
			}
			for _, where := range []string{"/x", "/other/x", "/dst/x"} {
				if _, err := os.Lstat(dir + where); err == nil {
					t.Errorf("%s: %s was made", name, where)
				}
			}
		}
	})
}

// TestShrinkingFile checks that an archive stays whole when a file gets shorter
// while it is read.
func TestShrinkingFile(t *testing.T) {
	dir := t.TempDir()
	const size = 4 << 20
	must(t, os.WriteFile(dir+"/a", bytes.Repeat([]byte("x"), size), 0o644))
	must(t, os.WriteFile(dir+"/b", []byte("after"), 0o644))
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	r, w := io.Pipe()
	defer r.Close()
	go func() {
		w.CloseWithError(files.In(root, dir).File(t.Context(), &backend.FileRequest{Op: backend.FileReadTar, Name: ".", Output: w}))
	}()
	entries := tar.NewReader(r)
	h, err := entries.Next()
	must(t, err)
	_, err = io.CopyN(io.Discard, entries, 1<<20)
	must(t, err)
	must(t, os.Truncate(dir+"/a", 0))
	n, err := io.Copy(io.Discard, entries)
	if h.Size != size || n != size-1<<20 || err != nil {
		t.Errorf("the file has %d bytes, of which %d came after it shrank, %v", h.Size, n, err)
	}
	h, err = entries.Next()
	must(t, err)
	rest, err := io.ReadAll(entries)
	if h.Name != "b" || string(rest) != "after" || err != nil {
		t.Errorf("the next file is %s with %q, %v", h.Name, rest, err)
	}
	if _, err := entries.Next(); err != io.EOF {
		t.Errorf("the archive ends with %v", err)
	}
}

// TestEveryFieldOfARequestTravels checks that what a Client is asked for, its process
// is asked for, too.
func TestEveryFieldOfARequestTravels(t *testing.T) {
	want := &backend.FileRequest{}
	for i := range reflect.ValueOf(want).Elem().NumField() {
		switch f := reflect.ValueOf(want).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString(fmt.Sprintf("%d \xff\n\"", i))
		case reflect.Int64:
			f.SetInt(int64(1<<40 + i))
		case reflect.Uint32:
			f.SetUint(uint64(1<<31 + i))
		case reflect.Interface, reflect.Func: // Content, Output and Found are the process's own
		default:
			t.Errorf("a field of kind %v", f.Kind())
		}
	}
	got, err := files.DecodeRequest(files.EncodeRequest(want))
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

// An operation that is given up while its process starts leaves nothing.
func TestGivenUpWhileItStarts(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	c := through(t, func(ctx context.Context, spec *backend.Spec) (backend.Process, error) {
		p, err := starter(dir)(ctx, spec)
		must(t, err)
		cancel()
		p.Kill()
		return nil, ctx.Err()
	})
	content, w := io.Pipe()
	defer w.Close()
	err := c.File(ctx, &backend.FileRequest{Op: backend.FileWrite, Name: "f", Mode: 0o600, Content: content})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// Operations that come one after the other have one process, also after one that fails.
// What a command does to a process that has nothing to do is not seen by the next
// operation.
func TestKeptProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "start")
	must(t, os.Mkdir(dir, 0o700))
	var started []*process
	fl := filer{through(t, func(ctx context.Context, spec *backend.Spec) (backend.Process, error) {
		p, err := starter(dir)(ctx, spec)
		if err == nil {
			started = append(started, p.(*process))
		}
		return p, err
	})}
	write := func(text string) {
		t.Helper()
		must(t, fl.Write(t.Context(), "f", strings.NewReader(text), 0o600))
		if got := read(t, fl, "f", 0, 0); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	signal := func(s syscall.Signal) { must(t, started[len(started)-1].cmd.Process.Signal(s)) }
	for _, step := range []struct {
		name      string
		do        func()
		processes int
	}{
		{"first", func() {}, 1},
		{"next", func() {}, 1},
		{"after-an-error", func() { wantCause(t, "a read", readError(t, fl, "none"), fs.ErrNotExist) }, 1},
		{"after-a-broken-write", func() {
			if err := fl.Write(t.Context(), "f", iotest.ErrReader(io.ErrUnexpectedEOF), 0o600); err == nil {
				t.Error("it is whole")
			}
		}, 2},
		{"killed", func() { signal(syscall.SIGKILL); <-started[1].Exited() }, 3},
		{"about-to-be-killed", func() {
			signal(syscall.SIGSTOP)
			go func() {
				time.Sleep(50 * time.Millisecond)
				signal(syscall.SIGKILL)
			}()
		}, 4},
		{"stopped", func() { signal(syscall.SIGSTOP) }, 4},
		{"another-start-directory", func() {
			must(t, os.Rename(dir, dir+".old"))
			must(t, os.Mkdir(dir, 0o700))
		}, 4},
	} {
		step.do()
		write(step.name)
		if n := len(started); n != step.processes {
			t.Fatalf("%s: %d processes, want %d", step.name, n, step.processes)
		}
	}
}
