package backendtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing/fstest"
	"testing/iotest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// fileCases are about the content of files that is read and written without a
// command.
func fileCases() []Case {
	return []Case{{
		Name:  "a-file-is-read-as-written",
		Rule:  "A file has the bytes that were written, all from an offset on or at most as many as asked for; an offset past the end gives nothing.",
		needs: needFiles,
		run:   aFileIsReadAsWritten,
	}, {
		Name:  "a-write-is-one-step",
		Rule:  "Whoever reads while a file is written sees the old content or the new one, whole; what is open stays the old one.",
		needs: needFiles,
		run:   aWriteIsOneStep,
	}, {
		Name:  "a-failed-write-changes-nothing",
		Rule:  "When the content fails, or the context ends, the old file is what it was, a new one is not there, and nothing else is left; the error is the content's, or the context's.",
		needs: needFiles,
		run:   aFailedWriteChangesNothing,
	}, {
		Name:  "a-write-sets-the-mode",
		Rule:  "A file that is written has the mode that was asked for, whatever there was before and whatever the umask; without one it keeps its own, and a new one has 0644.",
		needs: needFiles,
		run:   aWriteSetsTheMode,
	}, {
		Name:  "a-write-makes-what-is-missing",
		Rule:  "A write makes the directories that are missing if it is asked to, with mode 0755, and only then.",
		needs: needFiles,
		run:   aWriteMakesWhatIsMissing,
	}, {
		Name:  "a-write-is-bounded",
		Rule:  "A content that is longer than allowed is ErrTooLarge and changes nothing; so it is with what ReadFile reads.",
		needs: needFiles,
		run:   aWriteIsBounded,
	}, {
		Name:  "a-writer-is-closed-or-given-up",
		Rule:  "What a writer was given is the file when its Close returns nil; a writer whose context ends first changes nothing, and an error tells Write or Close.",
		needs: needFiles,
		run:   aWriterIsClosedOrGivenUp,
	}, {
		Name:  "a-write-follows-links",
		Rule:  "A write to a symbolic link writes what it leads to, which need not exist yet; the link stays.",
		needs: needFiles,
		run:   aWriteFollowsLinks,
	}, {
		Name:  "an-ended-context-ends-a-read",
		Rule:  "The context of a read covers the reading until Close: when it ends, so does the reading, with its error. Close of what is not read to its end waits for nothing.",
		needs: needFiles,
		run:   anEndedContextEndsARead,
	}, {
		Name:  "a-huge-file-is-read-from-its-middle",
		Rule:  "A file of any size is read from any offset, without what is before it.",
		needs: needFiles | needShell,
		run:   aHugeFileIsReadFromItsMiddle,
	}, {
		Name:  "files-are-an-fs",
		Rule:  "The files are an fs.FS, as testing/fstest checks it.",
		needs: needFiles,
		run:   filesAreAnFs,
	}, {
		Name:  "file-work-goes-side-by-side",
		Rule:  "The methods may be called concurrently.",
		needs: needFiles,
		run:   fileWorkGoesSideBySide,
	}, {
		Name:  "file-work-leaves-nothing",
		Rule:  "Work on files leaves neither goroutines nor descriptors nor memory, whether it succeeds, fails or is broken off.",
		needs: needFiles,
		alone: true,
		run:   fileWorkLeavesNothing,
	}}
}

func aFileIsReadAsWritten(s *subject) {
	big := numbered(300_000).all() + "\x00\xff\r\n"
	s.writeFile("empty", "")
	s.same("an empty file", s.readFile("empty"), "")
	s.writeFile("big", big)
	end := int64(len(big))
	for _, part := range []struct {
		offset, limit int64
		want          string
	}{
		{0, 0, big}, {0, 5, big[:5]}, {100_003, 70_001, big[100_003:170_004]},
		{end - 2, 0, "\r\n"}, {end - 2, 10, "\r\n"}, {end, 0, ""}, {end + 1<<40, 5, ""},
	} {
		s.same(fmt.Sprintf("at most %d bytes from %d on", part.limit, part.offset), s.readPart("big", part.offset, part.limit), part.want)
	}
	info := s.stat("big")
	if info.Path != "big" || info.Size != end || !info.Mode.IsRegular() || time.Since(info.ModTime).Abs() > time.Hour && !s.h.Bubble {
		s.Errorf("stat says %+v, want a file big of %d bytes, modified now", info, int64(end))
	}
	s.writeFile("big", "short")
	s.same("what replaced it", s.readFile("big"), "short")
}

func aWriteIsOneStep(s *subject) {
	const size = 300_000
	content := func(i int) string { return strings.Repeat(string(rune('a'+i%2)), size) }
	s.writeFile("f", content(0))
	open, err := s.Files().Open(s.ctx, "f", nil)
	if err != nil {
		s.Fatalf("read: %v", err)
	}
	defer open.Close()
	var writer errgroup.Group
	writer.Go(func() error {
		for i := range 30 {
			if err := s.Files().WriteFile(s.ctx, "f", []byte(content(i+1)), nil); err != nil {
				return err
			}
		}
		return nil
	})
	for range 30 {
		if got := s.readFile("f"); got != content(0) && got != content(1) {
			s.Errorf("got %d bytes, which begin with %q; want one of the two contents of %d", len(got), excerpt(got), size)
		}
	}
	if err := writer.Wait(); err != nil {
		s.Errorf("write: %v", err)
	}
	if got, err := io.ReadAll(open); err != nil || string(got) != content(0) {
		s.Errorf("what was open has %d bytes, %v; want the %d it had then", len(got), err, size)
	}
}

func aFailedWriteChangesNothing(s *subject) {
	s.writeFile("old", "old")
	for _, name := range []string{"old", "new"} {
		broken := errors.New("broken")
		half := strings.NewReader(strings.Repeat("half", 50_000))
		if err := s.Files().WriteFrom(s.ctx, name, io.MultiReader(half, iotest.ErrReader(broken)), nil); !errors.Is(err, broken) {
			s.Errorf("a write whose content fails: %v", err)
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(s.ctx, restTime)
		if err := s.Files().WriteFrom(ctx, name, trickle{}, nil); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("a write whose context ends: %v", err)
		}
		s.prompt("the write", time.Since(begin), restTime)
		cancel()
		time.Sleep(2 * trickleTime) // a Read in progress is left behind, and must not outlast the test
	}
	s.same("the file", s.readFile("old"), "old")
	s.same("the directory", s.list(".", true), "file old\n")
}

func aWriteSetsTheMode(s *subject) {
	for _, mode := range []fs.FileMode{0o600, 0o777, 0o444, 0o751} {
		for _, o := range []*sandbox.WriteOptions{{Mode: mode}, nil} {
			if err := s.Files().WriteFile(s.ctx, "f", []byte("x"), o); err != nil {
				s.Fatalf("write: %v", err)
			}
			if got := s.stat("f").Mode; got != mode {
				s.Errorf("mode %v, want %v", got, mode)
			}
		}
	}
	if err := s.Files().WriteFile(s.ctx, "new", nil, nil); err != nil || s.stat("new").Mode != 0o644 {
		s.Errorf("a new file has mode %v, %v; want 0644", s.stat("new").Mode, err)
	}
}

func aWriteMakesWhatIsMissing(s *subject) {
	s.refused("write", "a/b/f", s.Files().WriteFile(s.ctx, "a/b/f", []byte("x"), nil), fs.ErrNotExist)
	s.same("the directory", s.list(".", true), "")
	s.links(".", "link", "c/d/f")
	for _, name := range []string{"a/b/f", "a/b/f", "/workspace/a/g", "link"} {
		if err := s.Files().WriteFile(s.ctx, name, []byte("x"), &sandbox.WriteOptions{Parents: true}); err != nil {
			s.Errorf("write: %v", err)
		}
	}
	s.same("the directory", s.list(".", true), "dir a\ndir a/b\nfile a/b/f\nfile a/g\ndir c\ndir c/d\nfile c/d/f\nlink link -> c/d/f\n")
	if mode := s.stat("a/b").Mode; mode != fs.ModeDir|0o755 {
		s.Errorf("the directory has mode %v, want %v", mode, fs.ModeDir|0o755)
	}
	s.refused("write", "a/b/f/g", s.Files().WriteFile(s.ctx, "a/b/f/g", nil, &sandbox.WriteOptions{Parents: true}), backend.ErrNotDirectory)
}

func aWriteIsBounded(s *subject) {
	const size = 200_000
	bound := &sandbox.WriteOptions{MaxSize: size}
	if err := s.Files().WriteFile(s.ctx, "f", make([]byte, size), bound); err != nil {
		s.Errorf("write: %v", err)
	}
	for _, name := range []string{"f", "new"} {
		if err := s.Files().WriteFile(s.ctx, name, make([]byte, size+1), bound); !errors.Is(err, sandbox.ErrTooLarge) {
			s.Errorf("a write of a byte too many: %v", err)
		}
		if err := s.Files().WriteFrom(s.ctx, name, trickle{}, bound); !errors.Is(err, sandbox.ErrTooLarge) {
			s.Errorf("a write without end: %v", err)
		}
	}
	s.same("the directory", s.list(".", true), "file f\n")
	for max, want := range map[int64]error{size - 1: sandbox.ErrTooLarge, size: nil, 0: nil, -1: nil} {
		got, err := s.Files().ReadFile(s.ctx, "f", &sandbox.ReadOptions{MaxSize: max})
		if !errors.Is(err, want) || err == nil && len(got) != size {
			s.Errorf("%d bytes, of at most %d, %v; want %v", len(got), max, err, want)
		}
	}
	if got, err := s.Files().ReadFile(s.ctx, "f", &sandbox.ReadOptions{Offset: 10, Limit: 100, MaxSize: 100}); err != nil || len(got) != 100 {
		s.Errorf("a part has %d bytes, %v; want 100", len(got), err)
	}
}

func aWriterIsClosedOrGivenUp(s *subject) {
	for _, text := range []string{"", numbered(200_000).all()} {
		w, err := s.Files().Create(s.ctx, "f", nil)
		if err != nil {
			s.Fatalf("create: %v", err)
		}
		for part := range slices.Chunk([]byte(text), 7000) {
			if _, err := w.Write(part); err != nil {
				s.Errorf("write: %v", err)
			}
		}
		for range 2 {
			if err := w.Close(); err != nil {
				s.Errorf("close: %v", err)
			}
		}
		s.same("the file", s.readFile("f"), text)
	}
	want := s.readFile("f")
	ctx, cancel := context.WithCancel(s.ctx)
	w, err := s.Files().Create(ctx, "f", nil)
	if err != nil {
		s.Fatalf("create: %v", err)
	}
	io.WriteString(w, "given up")
	cancel()
	if err := w.Close(); !errors.Is(err, context.Canceled) {
		s.Errorf("close of what was given up: %v", err)
	}
	if _, err := w.Write([]byte("x")); err == nil {
		s.Errorf("a write after that is no error")
	}
	w, err = s.Files().Create(s.ctx, "no/f", nil)
	if err == nil {
		_, err = io.Copy(w, trickle{})
		s.refused("write", "no/f", err, fs.ErrNotExist)
		err = w.Close()
	}
	s.refused("close", "no/f", err, fs.ErrNotExist)
	s.same("the directory", s.list(".", true), "file f\n")
	s.same("the file", s.readFile("f"), want)
}

func aWriteFollowsLinks(s *subject) {
	s.links(".", "dir/one", "../f", "two", "dir/one", "loop", "loop")
	for _, text := range []string{"new", "replaced"} {
		s.writeFile("two", text)
		s.same("the file", s.readFile("f"), text)
		s.same("the file, through its links", s.readFile("two"), text)
	}
	s.same("the directory", s.list(".", true), "dir dir\nlink dir/one -> ../f\nfile f\nlink loop -> loop\nlink two -> dir/one\n")
	if err := s.Files().WriteFile(s.ctx, "loop", []byte("x"), nil); err == nil {
		s.Errorf("a write to a link to itself is no error")
	}
}

func anEndedContextEndsARead(s *subject) {
	s.writeFile("dir/f", strings.Repeat("x", 8<<20))
	for what, read := range map[string]func(context.Context) (io.ReadCloser, error){
		"read":     func(ctx context.Context) (io.ReadCloser, error) { return s.Files().Open(ctx, "dir/f", nil) },
		"read tar": func(ctx context.Context) (io.ReadCloser, error) { return s.Files().ReadTar(ctx, "dir") },
	} {
		ctx, cancel := context.WithCancel(s.ctx)
		r, err := read(ctx)
		if err != nil {
			s.Fatalf("%s: %v", what, err)
		}
		if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
			s.Errorf("%s: %v", what, err)
		}
		cancel()
		if n, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) || n > 4<<20 {
			s.Errorf("%s after its context has ended: got %d bytes, %v; want at most %d, %v", what, n, err, 4<<20, context.Canceled)
		}
		r.Close()
		unread, err := read(s.ctx)
		if err != nil {
			s.Fatalf("%s: %v", what, err)
		}
		begin := time.Now()
		unread.Close()
		s.prompt("the close", time.Since(begin), 0)
	}
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	if err := s.Files().WriteFile(ended, "new", []byte("x"), nil); !errors.Is(err, context.Canceled) {
		s.Errorf("a write with a context that has ended: %v", err)
	}
}

func aHugeFileIsReadFromItsMiddle(s *subject) {
	s.completed(s.shell("dd if=/dev/null of=huge bs=1 count=0 seek=1073741824 2>/dev/null; printf end >>huge"), 0, "", "")
	begin := time.Now()
	s.same("the end", s.readPart("huge", 1<<30-2, 0), "\x00\x00end")
	s.same("the middle", s.readPart("huge", 1<<29, 3), "\x00\x00\x00")
	s.prompt("the reading", time.Since(begin), 0)
	if size := s.stat("huge").Size; size != 1<<30+3 {
		s.Errorf("its size is %d, want %d", size, 1<<30+3)
	}
}

func filesAreAnFs(s *subject) {
	for _, name := range []string{"tree/a", "tree/sub/b", "tree/sub/deeper/c"} {
		s.writeFile(name, "content of "+name)
	}
	if err := fstest.TestFS(sandbox.FS(s.ctx, s, "tree"), "a", "sub/b", "sub/deeper/c"); err != nil {
		s.Errorf("%v", err)
	}
}

func fileWorkGoesSideBySide(s *subject) {
	var all errgroup.Group
	for i := range 8 {
		all.Go(func() error {
			name := fmt.Sprintf("dir%d/f", i)
			for n := range 5 {
				text := fmt.Sprintf("%d of %d", n, i)
				s.writeFile(name, text)
				s.same(name, s.readFile(name), text)
			}
			return s.Files().Remove(s.ctx, name, nil)
		})
	}
	if err := all.Wait(); err != nil {
		s.Errorf("remove: %v", err)
	}
}

func fileWorkLeavesNothing(s *subject) {
	s.writeFile("dir/f", strings.Repeat("x", 1<<20))
	var use usage
	for i := range full(600, 30) {
		if i == 10 {
			use = measure()
		}
		s.writeFile("g", "x")
		s.Files().WriteFrom(s.ctx, "g", io.MultiReader(strings.NewReader("x"), iotest.ErrReader(io.ErrUnexpectedEOF)), nil)
		s.Files().Stat(s.ctx, "none")
		for range s.Files().List(s.ctx, ".", &sandbox.ListOptions{Recursive: true}) {
			break
		}
		r, err := s.Files().Open(s.ctx, "dir/f", nil)
		if err != nil {
			s.Fatalf("read: %v", err)
		}
		r.Close()
		if r, err = s.Files().ReadTar(s.ctx, "dir"); err != nil {
			s.Fatalf("read tar: %v", err)
		}
		r.Close()
	}
	s.flat(use)
}

// trickle is content that comes slowly and does not end.
type trickle struct{}

const trickleTime = time.Millisecond

func (trickle) Read(p []byte) (int, error) {
	time.Sleep(trickleTime)
	return len(p), nil
}
