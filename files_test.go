package sandbox_test

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/fake"
)

func TestFiles(t *testing.T) {
	b := fake.New(nil)
	b.Handle("cat f", func(p *fake.Process) int {
		root, err := p.Root()
		if err != nil {
			return 1
		}
		content, err := root.ReadFile("workspace/f")
		if err != nil {
			return 1
		}
		p.Stdout.Write(content)
		return 0
	})
	sb, stop := newSandbox(t, b, nil)
	ctx := t.Context()
	files := sb.Files()
	if err := files.WriteFile(ctx, "f", []byte("written"), nil); err != nil {
		t.Fatal(err)
	}
	if rec := run(t, sb, "cat f"); rec.Stdout.String() != "written" {
		t.Errorf("the command read %q of a file that was written", rec.Stdout)
	}
	info, err := files.Stat(ctx, "/home/user/f")
	if err != nil || info.Path != "/home/user/f" || info.Size != 7 {
		t.Errorf("Stat = %+v, %v", info, err)
	}
	_, err = files.Stat(ctx, "/workspace/no")
	var op *sandbox.Error
	var p *fs.PathError
	if !errors.As(err, &op) || op.Sandbox != sb.ID() || !errors.As(err, &p) || p.Path != "/workspace/no" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat of nothing gave %#v", err)
	}
	var invalid *sandbox.InvalidError
	for what, err := range map[string]error{
		"an empty name":       files.Remove(ctx, "", nil),
		"a NUL":               files.Rename(ctx, "a", "b\x00"),
		"more than a mode":    files.WriteFile(ctx, "f", nil, &sandbox.WriteOptions{Mode: fs.ModeDir | 0o755}),
		"a negative offset":   func() error { _, err := files.Open(ctx, "f", &sandbox.ReadOptions{Offset: -1}); return err }(),
		"a negative limit":    func() error { _, err := files.ReadFile(ctx, "f", &sandbox.ReadOptions{Limit: -1}); return err }(),
		"a writer of no name": func() error { _, err := files.Create(ctx, "", nil); return err }(),
	} {
		if !errors.As(err, &invalid) {
			t.Errorf("%s gave %v, want an *InvalidError", what, err)
		}
	}
	stop()
	if err := files.MkdirAll(ctx, "d", 0o755); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("Mkdir in a closed sandbox gave %v", err)
	}
}

func TestFS(t *testing.T) {
	b := fake.New(nil)
	sb, stop := newSandbox(t, b, nil)
	defer stop()
	ctx := t.Context()
	if err := sb.Files().MkdirAll(ctx, "tree/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tree/a", "tree/sub/b"} {
		if err := sb.Files().WriteFile(ctx, name, []byte("content of "+name), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := fstest.TestFS(sandbox.FS(ctx, sb, "tree"), "a", "sub/b"); err != nil {
		t.Error(err)
	}
}

func TestDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fake.New(nil)
		b.Handle("serve", func(p *fake.Process) int {
			l, err := p.Listen(8080)
			if err != nil {
				return 1
			}
			http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello from inside") }))
			return 0
		})
		sb, stop := newSandbox(t, b, nil)
		defer stop()
		if _, err := sb.Dial(t.Context(), 8080); !errors.Is(err, backend.ErrRefused) {
			t.Errorf("Dial of a port that nobody listens on gave %v", err)
		}
		var invalid *sandbox.InvalidError
		if _, err := sb.Dial(t.Context(), 65536); !errors.As(err, &invalid) {
			t.Errorf("Dial of port 65536 gave %v", err)
		}
		ex, err := sb.Start(t.Context(), sandbox.Command{Shell: "serve"})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		conn, err := sb.Dial(t.Context(), 8080)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "hello from inside" {
			t.Errorf("got %q, %v", body, err)
		}
		open, err := sb.Dial(t.Context(), 8080)
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		if err := ex.Cancel(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := open.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("a connection to what was killed gave %v, want io.EOF", err)
		}
	})
}

func TestTerminal(t *testing.T) {
	handler := func(p *fake.Process) int {
		size := p.Terminal()
		io.WriteString(p.Stderr, p.Getenv("TERM")+"\n")
		resized := p.Catch(backend.SIGWINCH)
		line, _ := bufio.NewReader(p.Stdin).ReadString('\n')
		<-resized
		if after := p.Terminal(); size.Rows != 24 || after.Rows != 50 {
			return 1
		}
		io.WriteString(p.Stdout, "got "+line)
		p.Sleep(time.Hour)
		return 0
	}
	bubble(t, handler, func(t *testing.T, sb sandbox.Sandbox) {
		ex := start(t, sb, sandbox.Command{Terminal: &sandbox.TerminalSize{Rows: 24, Cols: 80}})
		synctest.Wait()
		if err := ex.Resize(t.Context(), sandbox.TerminalSize{Rows: 50, Cols: 100}); err != nil {
			t.Fatal(err)
		}
		for _, typed := range []string{"hi\r", "\x03"} {
			if _, err := ex.WriteStdin(t.Context(), []byte(typed)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		rec := wait(t, ex)
		if got, want := rec.Stdout.String(), "xterm-256color\r\nhi\r\ngot hi\r\n^C"; got != want || rec.Stderr.Total != 0 {
			t.Errorf("the terminal shows %q, want %q", got, want)
		}
		if rec.Signal != backend.SIGINT {
			t.Errorf("Ctrl-C ended it by %v", rec.Signal)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := fake.New(&fake.Options{Info: &backend.Info{Name: "plain"}})
		sb, stop := newSandbox(t, b, nil)
		defer stop()
		_, err := sb.Start(t.Context(), sandbox.Command{Shell: "x", Terminal: &sandbox.TerminalSize{}})
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a backend without terminals gave %v", err)
		}
		if _, err := sb.Dial(t.Context(), 1); err == nil {
			t.Error("Dial succeeded")
		}
	})
}
