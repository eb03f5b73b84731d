package backendtest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// modified is when the files of archives were modified.
var modified = time.Unix(1_000_000_000, 0)

// tarCases are about whole trees that go in and out.
func tarCases() []Case {
	return []Case{{
		Name:  "a-tree-goes-in-and-out",
		Rule:  "An archive that is unpacked and packed again has the same files, directories, links, modes and times.",
		needs: needFiles,
		run:   aTreeGoesInAndOut,
	}, {
		Name:  "a-directory-of-the-host-goes-in-and-out",
		Rule:  "A directory of this machine that is copied in and out again is what it was: files, directories, links, modes and times. Progress tells each entry and the bytes.",
		needs: needFiles,
		run:   aDirectoryOfTheHostGoesInAndOut,
	}, {
		Name:  "hard-links-are-kept-together",
		Rule:  "A hard link of an archive becomes one, to a file of the same archive.",
		needs: needFiles,
		run:   hardLinksAreKeptTogether,
	}, {
		Name:  "a-hostile-archive-is-refused",
		Rule:  "Entries that lead out of the directory are refused, by name or through a link, and so are special files; nothing is made or changed outside of it.",
		needs: needFiles,
		run:   aHostileArchiveIsRefused,
	}, {
		Name:  "what-other-programs-pack-is-taken",
		Rule:  "An archive may have what git and GNU tar put into theirs: a comment for all of it, a name of its own, and files with holes.",
		needs: needFiles,
		run:   whatOtherProgramsPackIsTaken,
	}, {
		Name:  "a-broken-archive-is-an-error",
		Rule:  "An archive that ends too early, is none, or whose reading fails is an error.",
		needs: needFiles,
		run:   aBrokenArchiveIsAnError,
	}}
}

func aTreeGoesInAndOut(s *subject) {
	archive := s.archive(
		tar.Header{Typeflag: tar.TypeReg, Name: "a", Mode: 0o640, Size: 3, ModTime: modified},
		tar.Header{Typeflag: tar.TypeReg, Name: "b \n\xff", Mode: 0o755, ModTime: modified},
		tar.Header{Typeflag: tar.TypeDir, Name: "closed/", Mode: 0o555, ModTime: modified},
		tar.Header{Typeflag: tar.TypeReg, Name: "closed/big", Mode: 0o600, Size: 3 << 20, ModTime: modified},
		tar.Header{Typeflag: tar.TypeDir, Name: "empty/", Mode: 0o700, ModTime: modified},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "link", Linkname: "closed/big", Mode: 0o777},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "out", Linkname: "/etc/../etc/passwd", Mode: 0o777},
	)
	want := s.entries(archive)
	archive.Seek(0, io.SeekStart)
	if err := s.Files().WriteTar(s.ctx, "made/on/the/way", archive); err != nil {
		s.Fatalf("write tar: %v", err)
	}
	r, err := s.Files().ReadTar(s.ctx, "made/on/the/way")
	s.same("the archive", s.entries(strings.NewReader(s.content("archive", r, err))), want)
	s.same("a file", s.readFile("made/on/the/way/closed/big"), strings.Repeat("x", 3<<20))
	r, err = s.Files().ReadTar(s.ctx, "made/on/the/way/closed/big")
	s.same("the archive of a file", s.entries(strings.NewReader(s.content("archive", r, err))), "file big -rw------- 3145728 2001-09-09\n")
	err = s.Files().WriteTar(s.ctx, "made/on/the/way", s.archive(tar.Header{Typeflag: tar.TypeReg, Name: "link", Mode: 0o644, Size: 1}))
	if err != nil {
		s.Errorf("write tar: %v", err)
	}
	s.same("what replaced a link", s.list("made/on/the/way", false), "file a\nfile b \n\xff\ndir closed\ndir empty\nfile link\nlink out -> /etc/../etc/passwd\n")
}

func aDirectoryOfTheHostGoesInAndOut(s *subject) {
	from, to := s.hostDir(), filepath.Join(s.hostDir(), "made/here")
	err := errors.Join(
		os.WriteFile(from+"/big", []byte(strings.Repeat("x", 3<<20)), 0o600),
		os.MkdirAll(from+"/dir/empty", 0o750),
		os.WriteFile(from+"/dir/run", []byte("#!/bin/sh\n"), 0o755),
		os.Symlink("../big", from+"/dir/link"),
		os.Symlink("dir", from+"/other"),
		os.Chtimes(from+"/dir/run", modified, modified),
		os.Chtimes(from+"/dir", modified, modified),
	)
	if err != nil {
		s.Fatalf("host: %v", err)
	}
	var in, out sandbox.CopyProgress
	if err := s.Files().CopyIn(s.ctx, from, "in/to", &sandbox.CopyOptions{Progress: func(p sandbox.CopyProgress) { in = p }}); err != nil {
		s.Errorf("copy in: %v", err)
	}
	s.same("what is in the sandbox", s.list("in/to", true), "file big\ndir dir\ndir dir/empty\nlink dir/link -> ../big\nfile dir/run\nlink other -> dir\n")
	for range 2 { // the second time over what is there
		if err := s.Files().CopyOut(s.ctx, "in/to", to, &sandbox.CopyOptions{Progress: func(p sandbox.CopyProgress) { out = p }}); err != nil {
			s.Errorf("copy out: %v", err)
		}
		s.same("what came out", s.hostTree(to), s.hostTree(from))
	}
	for _, p := range []sandbox.CopyProgress{in, out} {
		if p.Name == "" || p.Entries != 6 || p.Bytes < 3<<20 || p.Bytes > 3<<20+64<<10 {
			s.Errorf("the last progress is %+v; want a name, 6 entries and 3 MiB", p)
		}
	}
	if err := s.Files().CopyOut(s.ctx, "in/to/dir/run", to, nil); err != nil {
		s.Errorf("copy out of a file: %v", err)
	}
	if got, err := os.ReadFile(to + "/run"); err != nil || string(got) != "#!/bin/sh\n" {
		s.Errorf("a file that came out has %q, %v; want what went in", got, err)
	}
	for what, err := range map[string]error{
		"in":  s.Files().CopyIn(s.ctx, from, "other", &sandbox.CopyOptions{MaxSize: 1 << 20}),
		"out": s.Files().CopyOut(s.ctx, "in/to", to, &sandbox.CopyOptions{MaxSize: 1 << 20}),
	} {
		if !errors.Is(err, sandbox.ErrTooLarge) {
			s.Errorf("a copy %s of more than is allowed: got %v, want %v", what, err, sandbox.ErrTooLarge)
		}
	}
	if err := s.Files().CopyIn(s.ctx, from+"/none", "other", nil); !errors.Is(err, fs.ErrNotExist) {
		s.Errorf("a copy of nothing: %v", err)
	}
}

func hardLinksAreKeptTogether(s *subject) {
	err := s.Files().WriteTar(s.ctx, ".", s.archive(
		tar.Header{Typeflag: tar.TypeReg, Name: "dir/f", Mode: 0o644, Size: 2},
		tar.Header{Typeflag: tar.TypeLink, Name: "other", Linkname: "dir/f"},
	))
	if err != nil {
		s.Errorf("write tar: %v", err)
	}
	s.same("the link", s.readFile("other"), "xx")
}

func aHostileArchiveIsRefused(s *subject) {
	s.writeFile("beside/f", "beside")
	reg := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 1, Mode: 0o644}
	}
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	for what, entries := range map[string][]tar.Header{
		"a name with dots":            {reg("../x")},
		"dots in the middle":          {reg("a/../../x")},
		"an absolute name":            {reg("/workspace/x")},
		"a directory with dots":       {{Typeflag: tar.TypeDir, Name: "../x/", Mode: 0o755}},
		"a link and a file below it":  {link("l", "../beside"), reg("l/x")},
		"a link and its replacement":  {link("l", "../beside"), reg("l/f")},
		"links one after another":     {link("l", ".."), link("m", "l/beside"), reg("m/x")},
		"a directory through a link":  {link("l", "../beside"), {Typeflag: tar.TypeDir, Name: "l/x/", Mode: 0o755}},
		"a link to dots":              {link("../x", "f")},
		"a hard link out":             {{Typeflag: tar.TypeLink, Name: "x", Linkname: "../beside/f"}},
		"a hard link through a link":  {link("l", "../beside"), {Typeflag: tar.TypeLink, Name: "x", Linkname: "l/f"}},
		"an absolute hard link":       {{Typeflag: tar.TypeLink, Name: "x", Linkname: "/workspace/beside/f"}},
		"a device":                    {{Typeflag: tar.TypeChar, Name: "x", Devmajor: 1, Devminor: 3}},
		"a block device":              {{Typeflag: tar.TypeBlock, Name: "x", Devmajor: 8}},
		"a FIFO":                      {{Typeflag: tar.TypeFifo, Name: "x"}},
		"what comes after such a one": {reg("ok"), {Typeflag: tar.TypeFifo, Name: "x"}, reg("late")},
	} {
		dir := "into/" + strings.ReplaceAll(what, " ", "-")
		err := s.Files().WriteTar(s.ctx, dir, s.archive(entries...))
		if !errors.Is(err, backend.ErrOutside) && !errors.Is(err, backend.ErrSpecialFile) && !errors.Is(err, fs.ErrNotExist) {
			s.Errorf("%s: got %v, want a refusal", what, err)
		}
		if list := s.list("into", false) + s.list(dir, true); strings.Contains(list, " x") || strings.Contains(list, " late") {
			s.Errorf("%s: there is now %q, want neither x nor late", what, list)
		}
		s.same(what+": what is beside", s.list("beside", true)+s.readFile("beside/f"), "file f\nbeside")
		s.same(what+": what is above", s.list(".", false), "dir beside\ndir into\n")
	}
}

func whatOtherProgramsPackIsTaken(s *subject) {
	archive := slices.Concat(
		s.blocks(tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": "of git"}}),
		gnuBlock('V', "a volume", 0, 0),
		gnuBlock('S', "sparse", 4, 1028), []byte("hole"), make([]byte, 508),
		gnuBlock('D', "dumped/", 6, 0), []byte("Yfile\x00"), make([]byte, 506),
		s.blocks(tar.Header{Typeflag: tar.TypeReg, Name: "dumped/file", Mode: 0o644, Size: 3}),
		make([]byte, 1024))
	if err := s.Files().WriteTar(s.ctx, "dir", bytes.NewReader(archive)); err != nil {
		s.Errorf("write tar: %v", err)
	}
	s.same("what there is", s.list("dir", true), "dir dumped\nfile dumped/file\nfile sparse\n")
	s.same("the file with a hole", s.readFile("dir/sparse"), strings.Repeat("\x00", 1024)+"hole")
	s.same("the file", s.readFile("dir/dumped/file"), "xxx")
}

func aBrokenArchiveIsAnError(s *subject) {
	whole, err := io.ReadAll(s.archive(tar.Header{Name: "a", Mode: 0o644, Size: 100_000}, tar.Header{Name: "b", Mode: 0o644}))
	if err != nil {
		s.Fatalf("archive: %v", err)
	}
	for what, r := range map[string]io.Reader{
		"nothing":  strings.NewReader(""),
		"an entry": bytes.NewReader(whole[:512+100_352]), // as far as its last block
		"half":     bytes.NewReader(whole[:len(whole)/2]),
		"nonsense": strings.NewReader(strings.Repeat("no archive ", 1000)),
		"failing":  io.MultiReader(bytes.NewReader(whole[:len(whole)-1024]), failing{}),
	} {
		if err := s.Files().WriteTar(s.ctx, "dir", r); err == nil {
			s.Errorf("%s of an archive is no error", what)
		}
	}
	if err := s.Files().WriteTar(s.ctx, "none", s.archive()); err != nil {
		s.Errorf("an archive without entries: %v", err)
	}
}

// hostTree renders a directory of this machine, a file a line.
func (s *subject) hostTree(dir string) string {
	s.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %s", strings.TrimPrefix(name, dir), info.Mode())
		if link, err := os.Readlink(name); err == nil {
			fmt.Fprintf(&b, " -> %s\n", link)
			return nil
		}
		content, _ := os.ReadFile(name)
		fmt.Fprintf(&b, " %x %s\n", sha256.Sum256(content), info.ModTime().UTC().Format(time.DateOnly))
		return nil
	})
	if err != nil {
		s.Errorf("host: %v", err)
	}
	return b.String()
}

// blocks returns an archive without its end.
func (s *subject) blocks(headers ...tar.Header) []byte {
	s.Helper()
	whole, err := io.ReadAll(s.archive(headers...))
	if err != nil {
		s.Fatalf("archive: %v", err)
	}
	return whole[:len(whole)-1024]
}

// gnuBlock makes the header of an entry as GNU tar does: of a file with a hole, whose
// last size bytes are stored, of the realSize that it has.
func gnuBlock(kind byte, name string, size, realSize int) []byte {
	b := make([]byte, 512)
	copy(b, name)
	copy(b[100:], "0000755\x000000000\x000000000\x00")
	copy(b[124:], fmt.Sprintf("%011o\x00%011o\x00", size, 1_000_000_000))
	copy(b[148:], "        ")
	b[156] = kind
	copy(b[257:], "ustar  \x00")
	if kind == 'S' {
		copy(b[386:], fmt.Sprintf("%011o\x00%011o\x00", realSize-size, size))
		copy(b[483:], fmt.Sprintf("%011o\x00", realSize))
	}
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

// entries renders an archive, an entry a line, sorted.
func (s *subject) entries(r io.Reader) string {
	s.Helper()
	var lines []string
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			s.Errorf("archive: %v", err)
			break
		}
		info := h.FileInfo()
		line := fmt.Sprintf("%s %s", kind(info.Mode()), h.Name)
		switch h.Typeflag {
		case tar.TypeSymlink:
			line += " -> " + h.Linkname
		case tar.TypeReg:
			line += fmt.Sprintf(" %v %d %s", info.Mode(), h.Size, h.ModTime.UTC().Format(time.DateOnly))
		default:
			line += fmt.Sprintf(" %v %s", info.Mode(), h.ModTime.UTC().Format(time.DateOnly))
		}
		lines = append(lines, line+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
