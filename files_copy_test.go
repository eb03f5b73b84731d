package sandbox_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/fake"
)

// hostile is a backend whose sandboxes give any archive.
type hostile struct {
	backend.Backend
	archive *[]byte
}

func (h hostile) Info() backend.Info { return backend.Info{Name: "hostile", Files: true} }

func (h hostile) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	i, err := h.Backend.Create(ctx, cfg)
	return hostileInstance{i, h.archive}, err
}

type hostileInstance struct {
	backend.Instance
	archive *[]byte
}

func (i hostileInstance) File(_ context.Context, r *backend.FileRequest) error {
	_, err := r.Output.Write(*i.archive)
	return err
}

// pack makes an archive in which each file has one byte.
func pack(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		h.Mode = 0o6777
		if h.Typeflag == tar.TypeReg {
			h.Size = 1
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, strings.Repeat("x", int(h.Size)))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
func link(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}
func hardLink(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
}
func directory(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name} }

// Whatever archive a sandbox gives, a copy of it changes nothing outside of its
// directory, and leaves nothing there that leads out of it.
func TestCopyOutTrustsNothing(t *testing.T) {
	var archive []byte
	b := fake.New(nil)
	defer b.Close(context.Background())
	sb, err := sandbox.New(t.Context(), hostile{b, &archive}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, tt := range map[string]struct {
		entries []tar.Header
		links   bool // with OutsideLinks there is no error
	}{
		"a name with dots":             {entries: []tar.Header{file("../beside")}},
		"an absolute name":             {entries: []tar.Header{file("/beside")}},
		"an absolute link":             {entries: []tar.Header{link("l", "/etc")}, links: true},
		"a link up":                    {entries: []tar.Header{link("l", "../beside")}, links: true},
		"a link to a missing one":      {entries: []tar.Header{link("l", "../missing")}, links: true},
		"a link up from below":         {entries: []tar.Header{directory("d"), link("d/l", "../../beside")}, links: true},
		"up after down":                {entries: []tar.Header{directory("d/e"), link("d/e/l", "x/../../../beside")}, links: true},
		"through another link":         {entries: []tar.Header{directory("a/b"), link("a/b/x", "../.."), link("l", "a/b/x/../beside")}, links: true},
		"below another link":           {entries: []tar.Header{directory("a"), link("a/b", "."), link("a/b/b/l", "../../beside")}, links: true},
		"before what it leads through": {entries: []tar.Header{link("l", "d/x"), directory("d"), link("d/x", "../../beside")}, links: true},
		"another name of a link":       {entries: []tar.Header{file("f"), directory("d/e"), link("d/e/l", "../../f"), hardLink("l", "d/e/l")}, links: true},
		"a file through a link":        {entries: []tar.Header{link("l", ".."), file("l/beside")}},
		"a hard link through a link":   {entries: []tar.Header{link("l", ".."), hardLink("h", "l/beside")}},
		"a hard link":                  {entries: []tar.Header{hardLink("h", "../beside")}},
		"a link, and what follows":     {entries: []tar.Header{link("a", "../beside"), directory("d"), {Typeflag: tar.TypeFifo, Name: "x"}}},
	} {
		t.Run(strings.ReplaceAll(what, " ", "-"), func(t *testing.T) {
			archive = pack(t, tt.entries...)
			top := t.TempDir()
			if err := os.WriteFile(top+"/beside", []byte("kept"), 0o600); err != nil {
				t.Fatal(err)
			}
			err := sb.Files().CopyOut(t.Context(), ".", top+"/into", nil)
			var of *sandbox.Error
			if !errors.As(err, &of) || !errors.Is(err, backend.ErrOutside) && !errors.Is(err, backend.ErrSpecialFile) {
				t.Errorf("CopyOut gave %v, want an *Error of ErrOutside or ErrSpecialFile", err)
			}
			err = filepath.WalkDir(top+"/into", func(name string, d fs.DirEntry, err error) error {
				if real, evalErr := filepath.EvalSymlinks(name); evalErr == nil && !strings.HasPrefix(real, top+"/into") {
					t.Errorf("%s leads to %s", name, real)
				} else if evalErr != nil {
					target, _ := os.Readlink(name)
					t.Errorf("%s is left, which leads to %s", name, target)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			if err := sb.Files().CopyOut(t.Context(), ".", top+"/trusting", &sandbox.CopyOptions{OutsideLinks: true}); tt.links != (err == nil) {
				t.Errorf("CopyOut with links that lead outside gave %v", err)
			}
			content, err := os.ReadFile(top + "/beside")
			if err != nil || string(content) != "kept" {
				t.Errorf("the file beside has %q, %v", content, err)
			}
			if entries, err := os.ReadDir(top); err != nil || len(entries) > 3 {
				t.Errorf("there is now %v, %v", entries, err)
			}
		})
	}
	t.Run("modes", func(t *testing.T) {
		archive = pack(t, file("f"), directory("d"), link("l", "d"), link("./d/up", ".././f"), hardLink("h", "f"))
		dir := t.TempDir()
		if err := sb.Files().CopyOut(t.Context(), ".", dir, nil); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(dir + "/d/up"); err != nil || info.Mode() != 0o777 {
			t.Errorf("the file has mode %v, %v", info.Mode(), err)
		}
	})
	t.Run("cut", func(t *testing.T) {
		archive = pack(t, file("f"))[:1024]
		if err := sb.Files().CopyOut(t.Context(), ".", t.TempDir(), nil); !errors.Is(err, backend.ErrArchive) {
			t.Errorf("CopyOut of half an archive gave %v", err)
		}
	})
}

// What a sandbox's files are copied to and from is the user's: it may fail, panic, or
// not come.
func TestCopiesEnd(t *testing.T) {
	sb, stop := newSandbox(t, fake.New(nil), nil)
	defer stop()
	files, host := sb.Files(), t.TempDir()
	if err := os.WriteFile(host+"/f", make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := files.CopyIn(t.Context(), host, "d", nil); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for what, o := range map[string]*sandbox.CopyOptions{
		"panic at once": {Progress: func(sandbox.CopyProgress) { panic(broken) }},
		"panic halfway": {Progress: func(p sandbox.CopyProgress) {
			if p.Bytes > 1<<19 {
				panic(broken)
			}
		}},
	} {
		for way, copied := range map[string]error{
			"in":  files.CopyIn(t.Context(), host, "e", o),
			"out": files.CopyOut(t.Context(), "d", t.TempDir(), o),
		} {
			var of *sandbox.Error
			if !errors.Is(copied, broken) || !errors.As(copied, &of) {
				t.Errorf("%s: a copy %s gave %v", what, way, copied)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ending := &sandbox.CopyOptions{Progress: func(sandbox.CopyProgress) { cancel() }}
	for way, err := range map[string]error{
		"in":  files.CopyIn(ctx, host, "e", ending),
		"out": files.CopyOut(ctx, "d", t.TempDir(), ending),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a copy %s whose context ended gave %v", way, err)
		}
	}
	if err := files.CopyOut(t.Context(), "none", t.TempDir(), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("CopyOut of nothing gave %v", err)
	}
	if err := files.CopyOut(t.Context(), "d", host+"/f", nil); err == nil {
		t.Error("CopyOut into a file gave no error")
	}
	stop()
	if err := files.CopyIn(t.Context(), host, "d", nil); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("CopyIn into a closed sandbox gave %v", err)
	}
}

// A content that does not come holds up neither its context's end nor the sandbox's.
func TestAContentThatBlocks(t *testing.T) {
	sb, stop := newSandbox(t, fake.New(nil), nil)
	defer stop()
	release := make(chan struct{})
	defer close(release)
	for what, write := range map[string]func(context.Context, io.Reader) error{
		"write":     func(ctx context.Context, r io.Reader) error { return sb.Files().WriteFrom(ctx, "f", r, nil) },
		"write tar": func(ctx context.Context, r io.Reader) error { return sb.Files().WriteTar(ctx, ".", r) },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		err := write(ctx, readerFunc(func([]byte) (int, error) {
			cancel()
			<-release
			return 0, io.EOF
		}))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s gave %v", what, err)
		}
	}
	err := sb.Files().WriteFrom(t.Context(), "f", readerFunc(func([]byte) (int, error) {
		go sb.Close(context.Background())
		<-release
		return 0, io.EOF
	}), nil)
	if !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("a write to a sandbox that is closed gave %v", err)
	}
}
