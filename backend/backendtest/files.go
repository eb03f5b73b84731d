package backendtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing/fstest"
	"testing/iotest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandbox-go/sandbox"
)

// fileCases are about the content of files that is read and written without a
// command.
func fileCases() []Case {
	return []Case{{
		Name:  "a-file-is-read-as-written",
		Rule:  "A file has the bytes that were written, all from an offset on or at most as many as asked for; an offset past the end gives nothing.",
		needs: needFiles,
		run: func(s *subject) {
			big := numbered(300_000).all() + "\x00\xff\r\n"
			s.writeFile("empty", "")
			s.same("an empty file", s.readFile("empty"), "")
			s.writeFile("big", big)
			end := int64(len(big))
			for _, part := range []struct {
				offset, limit int64
				want          string
			}{
				{0, -1, big}, {0, 0, ""}, {0, 5, big[:5]}, {100_003, 70_001, big[100_003:170_004]},
				{end - 2, -1, "\r\n"}, {end - 2, 10, "\r\n"}, {end, -1, ""}, {end + 1<<40, 5, ""},
			} {
				s.same(fmt.Sprintf("at most %d bytes from %d on", part.limit, part.offset), s.readPart("big", part.offset, part.limit), part.want)
			}
			info := s.stat("big")
			if info.Path != "big" || info.Size != end || !info.Mode.IsRegular() || time.Since(info.ModTime).Abs() > time.Hour && !s.h.Bubble {
				s.Errorf("stat says %+v", info)
			}
			s.writeFile("big", "short")
			s.same("what replaced it", s.readFile("big"), "short")
		},
	}, {
		Name:  "a-write-is-one-step",
		Rule:  "Whoever reads while a file is written sees the old content or the new one, whole; what is open stays the old one.",
		needs: needFiles,
		run: func(s *subject) {
			const size = 300_000
			content := func(i int) string { return strings.Repeat(string(rune('a'+i%2)), size) }
			s.writeFile("f", content(0))
			open, err := s.Files().Read(s.ctx, "f", 0, -1)
			if err != nil {
				s.Fatalf("read: %v", err)
			}
			defer open.Close()
			var writer errgroup.Group
			writer.Go(func() error {
				for i := range 30 {
					if err := s.Files().Write(s.ctx, "f", strings.NewReader(content(i+1)), 0o644); err != nil {
						return err
					}
				}
				return nil
			})
			for range 30 {
				if got := s.readFile("f"); got != content(0) && got != content(1) {
					s.Errorf("%d bytes of %d, which begin with %q", len(got), size, excerpt(got))
				}
			}
			if err := writer.Wait(); err != nil {
				s.Errorf("write: %v", err)
			}
			if got, err := io.ReadAll(open); err != nil || string(got) != content(0) {
				s.Errorf("what was open has %d bytes, %v", len(got), err)
			}
		},
	}, {
		Name:  "a-failed-write-changes-nothing",
		Rule:  "When the content fails, or the context ends, the old file is what it was, a new one is not there, and nothing else is left; the error is the content's, or the context's.",
		needs: needFiles,
		run: func(s *subject) {
			s.writeFile("old", "old")
			for _, name := range []string{"old", "new"} {
				broken := errors.New("broken")
				half := strings.NewReader(strings.Repeat("half", 50_000))
				if err := s.Files().Write(s.ctx, name, io.MultiReader(half, iotest.ErrReader(broken)), 0o600); !errors.Is(err, broken) {
					s.Errorf("a write whose content fails: %v", err)
				}
				begin := time.Now()
				ctx, cancel := context.WithTimeout(s.ctx, restTime)
				if err := s.Files().Write(ctx, name, trickle{}, 0o600); !errors.Is(err, context.DeadlineExceeded) {
					s.Errorf("a write whose context ends: %v", err)
				}
				s.prompt("the write", time.Since(begin), restTime)
				cancel()
				time.Sleep(2 * trickleTime) // a Read in progress is left behind, and must not outlast the test
			}
			s.same("the file", s.readFile("old"), "old")
			s.same("the directory", s.list(".", true), "file old\n")
		},
	}, {
		Name:  "a-write-sets-the-mode",
		Rule:  "A file that is written has the mode that was asked for, whatever there was before and whatever the umask.",
		needs: needFiles,
		run: func(s *subject) {
			for _, mode := range []fs.FileMode{0o600, 0o777, 0o444, 0o751} {
				if err := s.Files().Write(s.ctx, "f", strings.NewReader("x"), mode); err != nil {
					s.Fatalf("write: %v", err)
				}
				if got := s.stat("f").Mode; got != mode {
					s.Errorf("mode %v, want %v", got, mode)
				}
			}
		},
	}, {
		Name:  "a-write-follows-links",
		Rule:  "A write to a symbolic link writes what it leads to, which need not exist yet; the link stays.",
		needs: needFiles,
		run: func(s *subject) {
			s.links(".", "dir/one", "../f", "two", "dir/one", "loop", "loop")
			for _, text := range []string{"new", "replaced"} {
				s.writeFile("two", text)
				s.same("the file", s.readFile("f"), text)
				s.same("the file, through its links", s.readFile("two"), text)
			}
			s.same("the directory", s.list(".", true), "dir dir\nlink dir/one -> ../f\nfile f\nlink loop -> loop\nlink two -> dir/one\n")
			if err := s.Files().Write(s.ctx, "loop", strings.NewReader("x"), 0o644); err == nil {
				s.Errorf("a write to a link to itself is no error")
			}
		},
	}, {
		Name:  "an-ended-context-ends-a-read",
		Rule:  "The context of a read covers the reading until Close: when it ends, so does the reading, with its error. Close of what is not read to its end waits for nothing.",
		needs: needFiles,
		run: func(s *subject) {
			s.writeFile("dir/f", strings.Repeat("x", 8<<20))
			for what, read := range map[string]func(context.Context) (io.ReadCloser, error){
				"read":     func(ctx context.Context) (io.ReadCloser, error) { return s.Files().Read(ctx, "dir/f", 0, -1) },
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
					s.Errorf("%s after its context has ended: %d bytes, %v", what, n, err)
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
			if err := s.Files().Write(ended, "new", strings.NewReader("x"), 0o644); !errors.Is(err, context.Canceled) {
				s.Errorf("a write with a context that has ended: %v", err)
			}
		},
	}, {
		Name:  "a-huge-file-is-read-from-its-middle",
		Rule:  "A file of any size is read from any offset, without what is before it.",
		needs: needFiles | needShell,
		run: func(s *subject) {
			s.completed(s.shell("dd if=/dev/null of=huge bs=1 count=0 seek=1073741824 2>/dev/null; printf end >>huge"), 0, "", "")
			begin := time.Now()
			s.same("the end", s.readPart("huge", 1<<30-2, -1), "\x00\x00end")
			s.same("the middle", s.readPart("huge", 1<<29, 3), "\x00\x00\x00")
			s.prompt("the reading", time.Since(begin), 0)
			if size := s.stat("huge").Size; size != 1<<30+3 {
				s.Errorf("its size is %d", size)
			}
		},
	}, {
		Name:  "files-are-an-fs",
		Rule:  "The files are an fs.FS, as testing/fstest checks it.",
		needs: needFiles,
		run: func(s *subject) {
			for _, name := range []string{"tree/a", "tree/sub/b", "tree/sub/deeper/c"} {
				s.writeFile(name, "content of "+name)
			}
			if err := fstest.TestFS(sandbox.FS(s.ctx, s, "tree"), "a", "sub/b", "sub/deeper/c"); err != nil {
				s.Errorf("%v", err)
			}
		},
	}, {
		Name:  "file-work-goes-side-by-side",
		Rule:  "The methods may be called concurrently.",
		needs: needFiles,
		run: func(s *subject) {
			var all errgroup.Group
			for i := range 8 {
				all.Go(func() error {
					name := fmt.Sprintf("dir%d/f", i)
					for n := range 5 {
						text := fmt.Sprintf("%d of %d", n, i)
						s.writeFile(name, text)
						s.same(name, s.readFile(name), text)
					}
					return s.Files().Remove(s.ctx, name, false)
				})
			}
			if err := all.Wait(); err != nil {
				s.Errorf("remove: %v", err)
			}
		},
	}, {
		Name:  "file-work-leaves-nothing",
		Rule:  "Work on files leaves neither goroutines nor descriptors nor memory, whether it succeeds, fails or is broken off.",
		needs: needFiles,
		alone: true,
		run: func(s *subject) {
			s.writeFile("dir/f", strings.Repeat("x", 1<<20))
			var use usage
			for i := range full(600, 30) {
				if i == 10 {
					use = measure()
				}
				s.writeFile("g", "x")
				s.Files().Write(s.ctx, "g", io.MultiReader(strings.NewReader("x"), iotest.ErrReader(io.ErrUnexpectedEOF)), 0o644)
				s.Files().Stat(s.ctx, "none")
				for range s.Files().List(s.ctx, ".", true) {
					break
				}
				r, err := s.Files().Read(s.ctx, "dir/f", 0, -1)
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
		},
	}}
}

// trickle is content that comes slowly and does not end.
type trickle struct{}

const trickleTime = time.Millisecond

func (trickle) Read(p []byte) (int, error) {
	time.Sleep(trickleTime)
	return len(p), nil
}
