package backendtest

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"strings"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// directoryCases are about names, directories, and what is wrong with them.
func directoryCases() []Case {
	return []Case{{
		Name:  "a-list-tells-all",
		Rule:  "A list is sorted by name, a directory before its content; links are told and not followed; a name may have any byte but a slash and NUL.",
		needs: needFiles,
		run:   aListTellsAll,
	}, {
		Name:  "a-long-list-is-whole",
		Rule:  "A list of any length is whole, and may be left before its end.",
		needs: needFiles,
		run:   aLongListIsWhole,
	}, {
		Name:  "directories-are-made-and-removed",
		Rule:  "MkdirAll makes what is missing above, and leaves what exists as it is; Remove takes a file, a link itself, or an empty directory, and all below it only when asked to, and follows no link.",
		needs: needFiles,
		run:   directoriesAreMadeAndRemoved,
	}, {
		Name:  "the-start-directory-stays",
		Rule:  "The start directory can be neither removed nor moved nor replaced, whatever it is called, and a removal that is refused has deleted nothing.",
		needs: needFiles,
		run:   theStartDirectoryStays,
	}, {
		Name:  "a-refused-removal-deletes-nothing",
		Rule:  "A directory that cannot be removed, for want of rights to its parent or to what is below it, is left with all that is in it.",
		needs: needFiles | needShell,
		run:   aRefusedRemovalDeletesNothing,
	}, {
		Name:  "a-rename-moves-and-replaces",
		Rule:  "Rename moves a file or a directory, and replaces a file that is in its way.",
		needs: needFiles,
		run:   aRenameMovesAndReplaces,
	}, {
		Name:  "a-mode-is-changed",
		Rule:  "Chmod sets the permissions of a file or a directory, through symbolic links, whatever the umask.",
		needs: needFiles,
		run:   aModeIsChanged,
	}, {
		Name:  "names-mean-what-the-kernel-says",
		Rule:  `Double slashes and dots in a name mean nothing, ".." after a link is the parent of what the link leads to, and only a directory takes a slash at its end.`,
		needs: needFiles,
		run:   namesMeanWhatTheKernelSays,
	}, {
		Name:  "errors-of-files-are-typed",
		Rule:  "What is wrong with a name is a *fs.PathError with the name as it was given, and a cause to ask for.",
		needs: needFiles,
		run:   errorsOfFilesAreTyped,
	}}
}

func aListTellsAll(s *subject) {
	odd := []string{"\n", "\xff\xfe", " a  b ", "\"'\\", "-rf", "a\r\nb\tc", "é", "…\x7f\x1b[0m", strings.Repeat("n", 255)}
	for _, name := range odd {
		s.writeFile("odd/"+name, "of "+name)
		s.same("the file", s.readFile("odd/"+name), "of "+name)
	}
	s.same("odd names", s.list("odd", false), "file \n\nfile  a  b \nfile \"'\\\nfile -rf\nfile a\r\nb\tc\nfile "+
		strings.Repeat("n", 255)+"\nfile é\nfile …\x7f\x1b[0m\nfile \xff\xfe\n")
	s.writeFile("tree/b/c/f", "123")
	s.writeFile("tree/a", "")
	s.writeFile("tree/c", "")
	s.links("tree", "b/up", "..", "gone", "nothing", "dir", "b")
	s.same("the directory", s.list("tree", false), "file a\ndir b\nfile c\nlink dir -> b\nlink gone -> nothing\n")
	all := "file a\ndir b\ndir b/c\nfile b/c/f\nlink b/up -> ..\nfile c\nlink dir -> b\nlink gone -> nothing\n"
	s.same("the tree", s.list("tree", true), all)
	s.same("the tree, with a slash", s.list("tree/", true), all)
	s.same("through a link", s.list("tree/dir", true), "dir c\nfile c/f\nlink up -> ..\n")
	for info, err := range s.Files().List(s.ctx, "tree/b/c", nil) {
		if err != nil || info.Size != 3 || info.Mode != 0o644 || info.ModTime.IsZero() {
			s.Errorf("the file is %+v, %v; want 3 bytes, mode 0644 and a time", info, err)
		}
	}
	s.same("a directory that is empty", s.list("tree/b/c/../../../odd/..", false), "dir odd\ndir tree\n")
}

func aLongListIsWhole(s *subject) {
	var want strings.Builder
	var headers []tar.Header
	for i := range full(3000, 1500) {
		name := fmt.Sprintf("%04d%s", i, strings.Repeat("long", 30))
		headers = append(headers, tar.Header{Name: name, Mode: 0o644})
		want.WriteString("file " + name + "\n")
	}
	if err := s.Files().WriteTar(s.ctx, "dir", s.archive(headers...)); err != nil {
		s.Fatalf("write tar: %v", err)
	}
	s.same("the list", s.list("dir", false), want.String())
	for info, err := range s.Files().List(s.ctx, "dir", nil) {
		if err != nil || !strings.HasPrefix(info.Path, "0000long") {
			s.Errorf("the first file is %+v, %v; want 0000long…", info, err)
		}
		break
	}
}

func directoriesAreMadeAndRemoved(s *subject) {
	f := s.Files()
	for _, mode := range []fs.FileMode{0o750, 0o700} {
		if err := f.MkdirAll(s.ctx, "a/b/c", mode); err != nil {
			s.Errorf("mkdir: %v", err)
		}
	}
	if mode := s.stat("a/b/c").Mode; mode != fs.ModeDir|0o750 {
		s.Errorf("the directory has mode %v, want %v", mode, fs.ModeDir|0o750)
	}
	s.writeFile("kept/f", "kept")
	s.links("a", "b/link", "../../kept", "file", "../kept/f")
	s.refused("remove", "a/b", f.Remove(s.ctx, "a/b", nil), backend.ErrNotEmpty)
	for _, name := range []string{"a/file", "a/b/c"} {
		if err := f.Remove(s.ctx, name, nil); err != nil {
			s.Errorf("remove: %v", err)
		}
	}
	s.same("what is left", s.list(".", true), "dir a\ndir a/b\nlink a/b/link -> ../../kept\ndir kept\nfile kept/f\n")
	if err := f.Remove(s.ctx, "a", &sandbox.RemoveOptions{Recursive: true}); err != nil {
		s.Errorf("remove: %v", err)
	}
	s.same("what is left", s.list(".", true), "dir kept\nfile kept/f\n")
	s.same("what a link led to", s.readFile("kept/f"), "kept")
}

func theStartDirectoryStays(s *subject) {
	s.writeFile("d/f", "kept")
	s.writeFile("f", "kept")
	s.links(".", "here", ".")
	want := s.list(".", true)
	f := s.Files()
	for _, name := range []string{
		".", "./", "./.", "d/..", "d/../", "here/.", "here/..", "here/d/..", "..",
		"/workspace", "/workspace/", "/workspace//", "/workspace/.", "/workspace/d/..", "/workspace/d/../",
		"/home/user", "/home/user/", "/home/user/.", "/home/user/here/.", "/",
	} {
		refused := []error{fs.ErrInvalid, fs.ErrPermission, backend.ErrOutside}
		for _, recursive := range []bool{true, false} {
			s.refused("remove", name, f.Remove(s.ctx, name, &sandbox.RemoveOptions{Recursive: recursive}), refused...)
		}
		s.refused("rename", name, f.Rename(s.ctx, name, "moved"), refused...)
		s.refused("rename over", name, f.Rename(s.ctx, "d", name), refused...)
		s.same("what there is after "+name, s.list(".", true), want)
	}
}

func aRefusedRemovalDeletesNothing(s *subject) {
	s.completed(s.shell("mkdir -p top/a top/ro/dir; echo >top/a/f; echo >top/ro/dir/f; chmod 555 top/ro"), 0, "", "")
	defer s.shell("chmod 755 top/ro")
	want := s.list(".", true)
	for name, of := range map[string]string{"top/ro/dir": "top/ro/dir", "top/ro/dir/": "top/ro/dir/", "top/ro": "top/ro", "top": "top/ro"} {
		s.refused("remove", of, s.Files().Remove(s.ctx, name, &sandbox.RemoveOptions{Recursive: true}), fs.ErrPermission)
		s.same("what there is after "+name, s.list(".", true), want)
	}
}

func aRenameMovesAndReplaces(s *subject) {
	s.writeFile("dir/f", "moved")
	s.writeFile("old", "old")
	for _, move := range [][2]string{{"dir/f", "old"}, {"dir", "other"}, {"old", "other/\xff"}} {
		if err := s.Files().Rename(s.ctx, move[0], move[1]); err != nil {
			s.Errorf("rename %q: %v", move, err)
		}
	}
	s.same("what there is", s.list(".", true), "dir other\nfile other/\xff\n")
	s.same("the file", s.readFile("other/\xff"), "moved")
	if err := s.Files().Rename(s.ctx, "/workspace/other", "/home/user/back"); err != nil {
		s.Errorf("rename between two names of the start directory: %v", err)
	}
	s.same("what there is", s.list(".", true), "dir back\nfile back/\xff\n")
}

func aModeIsChanged(s *subject) {
	s.writeFile("dir/f", "x")
	s.links(".", "link", "dir/f")
	for _, mode := range []fs.FileMode{0o600, 0o777, 0o444, 0o751} {
		for name, of := range map[string]string{"dir": "dir", "dir/f": "dir/f", "link": "dir/f"} {
			if err := s.Files().Chmod(s.ctx, name, mode|0o500); err != nil {
				s.Errorf("chmod: %v", err)
			}
			if got := s.stat(of).Mode.Perm(); got != mode|0o500 {
				s.Errorf("%s has mode %v, want %v", of, got, mode|0o500)
			}
		}
	}
}

func namesMeanWhatTheKernelSays(s *subject) {
	s.writeFile("a/b/f", "of b")
	s.writeFile("a/f", "of a")
	s.writeFile("f", "of the top")
	s.links(".", "link", "a/b")
	for name, want := range map[string]string{
		"./a//b/./f": "of b", "a/b/../f": "of a", "link/f": "of b", "link/../f": "of a", "a/../link/../../f": "of the top",
	} {
		s.same(name, s.readFile(name), want)
	}
	if !s.stat("a/").Mode.IsDir() || !s.stat(".").Mode.IsDir() || !s.stat("link/").Mode.IsDir() {
		s.Errorf("a name with a slash or a dot at its end is no directory, want one")
	}
	s.refused("read", "f/", s.readError("f/"), backend.ErrNotDirectory)

	// A link is no directory, and what it leads to is not the entry that is named.
	for _, name := range []string{"link/", "link//", "f/"} {
		err := s.Files().Remove(s.ctx, name, &sandbox.RemoveOptions{Recursive: true})
		s.refused("remove", name, err, backend.ErrNotDirectory)
		s.refused("rename", name, s.Files().Rename(s.ctx, name, "to"), backend.ErrNotDirectory)
	}
	s.refused("rename to", "link/", s.Files().Rename(s.ctx, "a", "link/"), backend.ErrNotDirectory)
	s.same("what the link leads to", s.readFile("a/b/f"), "of b")
}

func errorsOfFilesAreTyped(s *subject) {
	f := s.Files()
	s.writeFile("d/f", "x")
	s.writeFile("f", "x")
	s.links(".", "loop", "loop", "gone", "nothing")
	write := func(name string) error { return f.WriteFile(s.ctx, name, []byte("y"), nil) }
	mkdir := func(name string) error { return f.MkdirAll(s.ctx, name, 0o755) }
	remove := func(name string) error { return f.Remove(s.ctx, name, nil) }
	removeAll := func(name string) error { return f.Remove(s.ctx, name, &sandbox.RemoveOptions{Recursive: true}) }
	rename := func(name string) error { return f.Rename(s.ctx, name, "to") }
	list := func(name string) error { return s.firstError(name, false) }
	stat := func(name string) error { _, err := f.Stat(s.ctx, name); return err }
	chmod := func(name string) error { return f.Chmod(s.ctx, name, 0o600) }
	unpack := func(name string) error { return f.WriteTar(s.ctx, name, s.archive()) }
	for _, c := range []struct {
		what string
		do   func(string) error
		name string
		want error
	}{
		{"stat", stat, "no", fs.ErrNotExist},
		{"stat", stat, "gone", fs.ErrNotExist},
		{"stat", stat, "f/x", backend.ErrNotDirectory},
		{"stat", stat, "no\n\xff/x", fs.ErrNotExist},
		{"list", list, "no", fs.ErrNotExist},
		{"list", list, "f", backend.ErrNotDirectory},
		{"read", s.readError, "no", fs.ErrNotExist},
		{"read", s.readError, "d", backend.ErrIsDirectory},
		{"read", s.readError, "f/x", backend.ErrNotDirectory},
		{"write", write, "d", backend.ErrIsDirectory},
		{"write", write, "d/", backend.ErrIsDirectory},
		{"write", write, ".", backend.ErrIsDirectory},
		{"write", write, "no/x", fs.ErrNotExist},
		{"write", write, "f/x", backend.ErrNotDirectory},
		{"mkdir", mkdir, "f", backend.ErrNotDirectory},
		{"mkdir", mkdir, "f/x", backend.ErrNotDirectory},
		{"remove", remove, "no", fs.ErrNotExist},
		{"remove", remove, "d", backend.ErrNotEmpty},
		{"remove", removeAll, "no", fs.ErrNotExist},
		{"rename", rename, "no", fs.ErrNotExist},
		{"chmod", chmod, "no", fs.ErrNotExist},
		{"chmod", chmod, "f/x", backend.ErrNotDirectory},
		{"read tar", s.tarError, "no", fs.ErrNotExist},
		{"write tar", unpack, "f", backend.ErrNotDirectory},
	} {
		s.refused(c.what, c.name, c.do(c.name), c.want)
	}
	long := strings.Repeat("n", 256)
	for what, do := range map[string]func(string) error{"stat": stat, "write": write, "mkdir": mkdir, "read": s.readError} {
		for _, name := range []string{"loop/x", long} {
			if err := do(name); err == nil {
				s.Errorf("%s of %q is no error", what, excerpt(name))
			}
		}
	}
	s.same("what there is", s.list(".", true), "dir d\nfile d/f\nfile f\nlink gone -> nothing\nlink loop -> loop\n")
	s.same("the file", s.readFile("f")+s.readFile("d/f"), "xx")
}
