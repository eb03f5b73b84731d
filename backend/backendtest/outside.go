package backendtest

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// reachCases are about what can be reached by a name, and what cannot.
func reachCases() []Case {
	return []Case{{
		Name:  "files-and-commands-share",
		Rule:  "A command reads what was written and may change it, and what a command has written is read; a name that is absolute for it is so for Files.",
		needs: needFiles | needShell,
		run:   filesAndCommandsShare,
	}, {
		Name:  "temporary-files-are-shared",
		Rule:  "What a command has in /tmp and in TMPDIR, Files has under the same names, and the other way; neither can be removed.",
		needs: needFiles | needShell,
		run:   temporaryFilesAreShared,
	}, {
		Name:  "a-sandbox-cannot-take-its-directories-away",
		Rule:  "Whatever a command does to the start directory and TMPDIR, the next one works in a start directory that is there, files and commands mean the same place, and nothing outside is reached.",
		needs: needFiles | needShell,
		run:   aSandboxCannotTakeItsDirectoriesAway,
	}, {
		Name:  "special-files-do-not-block",
		Rule:  "A FIFO or a device that is to be read or written is ErrSpecialFile, at once; it can be described, listed, moved and removed, and an archive leaves it out.",
		needs: needFiles | needShell,
		run:   specialFilesDoNotBlock,
	}, {
		Name:  "odd-names-are-refused-with-a-reason",
		Rule:  "What can be opened and not read, what has unreadable files below it, and what is on another file system is refused with a cause to ask for, before any of it is done.",
		needs: needFiles | needShell | needProc,
		run:   oddNamesAreRefusedWithAReason,
	}, {
		Name:  "what-changes-does-not-block",
		Rule:  "Nothing blocks on a file that becomes a FIFO, a directory or a link while it is opened; it is read whole, or not at all.",
		needs: needFiles | needShell,
		run:   whatChangesDoesNotBlock,
	}, {
		Name:  "no-name-leads-outside",
		Rule:  "Nothing outside the sandbox is reachable, whatever dots and links there are in a name.",
		needs: needFiles,
		run:   noNameLeadsOutside,
	}, {
		Name:  "files-have-the-rights-of-commands",
		Rule:  "What a command could not do for want of rights cannot be done with Files.",
		needs: needFiles | needShell,
		run:   filesHaveTheRightsOfCommands,
	}, {
		Name:  "files-end-with-the-sandbox",
		Rule:  "A sandbox that is closed has no files any more: what is being read or listed ends, and nobody waits for its reader.",
		needs: needFiles,
		run:   filesEndWithTheSandbox,
	}}
}

func filesAndCommandsShare(s *subject) {
	s.writeFile("dir/f", "written\n")
	s.writeFile("odd \xff\n'", "odd\n")
	if err := s.Files().WriteFile(s.ctx, "run", []byte("#!/bin/sh\necho ran\n"), &sandbox.WriteOptions{Mode: 0o755}); err != nil {
		s.Errorf("write: %v", err)
	}
	rec := s.shell(`cat dir/f odd*; ./run; echo more >>dir/f; echo new >dir/g; chmod 600 run; mv dir moved; pwd`)
	pwd := lastLine(rec.Stdout.String())
	s.completed(rec, 0, "written\nodd\nran\n"+pwd+"\n", "")
	s.same("what a command has changed", s.readFile("moved/f"), "written\nmore\n")
	s.same("what a command has made", s.readFile(pwd+"/moved/g"), "new\n")
	if mode := s.stat(pwd + "/run").Mode; mode != 0o600 {
		s.Errorf("a command has made the mode %v, want 0600", mode)
	}
	s.writeFile(pwd+"/moved/g", "newer\n")
	err := s.Files().WriteTar(s.ctx, "tree", s.archive(
		tar.Header{Typeflag: tar.TypeDir, Name: "sub/", Mode: 0o755},
		tar.Header{Typeflag: tar.TypeReg, Name: "sub/f", Mode: 0o644, Size: 3}))
	if err != nil {
		s.Errorf("write tar: %v", err)
	}
	s.completed(s.shell("cat moved/g tree/sub/f; rm -r tree/sub; echo >tree/mine; rm moved/g"), 0, "newer\nxxx", "")
	s.same("what is left", s.list("moved", false)+s.list("tree", false), "file f\nfile mine\n")
}

func temporaryFilesAreShared(s *subject) {
	rec := s.shell(`umask 022; d=$(mktemp -d /tmp/backendtest-XXXXXX) && echo in >"$d/f" && echo own >"$TMPDIR/own" && echo "$d" && echo "$TMPDIR"`)
	text := rec.Stdout.String()
	dir, tmp, _ := strings.Cut(strings.TrimSuffix(text, "\n"), "\n")
	s.completed(rec, 0, text, "")
	f := s.Files()
	s.same("what a command wrote to /tmp", s.readFile(dir+"/f"), "in\n")
	s.same("what a command wrote to TMPDIR", s.readFile(tmp+"/own"), "own\n")
	s.writeFile(dir+"/new", "new in /tmp\n")
	s.writeFile(dir+"/sub/f", "")
	s.writeFile(tmp+"/new", "new in TMPDIR\n")
	if err := f.Rename(s.ctx, dir+"/new", dir+"/moved"); err != nil {
		s.Errorf("rename: %v", err)
	}
	s.completed(s.shell(`cat "`+dir+`/moved" "$TMPDIR/new"`), 0, "new in /tmp\nnew in TMPDIR\n", "")
	s.same("the directory", s.list(dir, true), "file f\nfile moved\ndir sub\nfile sub/f\n")
	r, err := f.ReadTar(s.ctx, dir)
	if got := s.entries(strings.NewReader(s.content("archive", r, err))); !strings.Contains(got, "file moved") {
		s.Errorf("the archive has %q, want the file moved", got)
	}
	if err := f.Rename(s.ctx, dir+"/moved", "moved"); err == nil {
		s.same("what was moved here", s.readFile("moved"), "new in /tmp\n")
	} else {
		s.causedBy("rename to the start directory", err, fs.ErrInvalid)
	}
	for _, name := range []string{"/tmp", "/tmp/.", tmp, tmp + "/"} {
		s.causedBy("remove "+name, f.Remove(s.ctx, name, &sandbox.RemoveOptions{Recursive: true}), fs.ErrInvalid, fs.ErrPermission)
	}
	s.same("what a command wrote to /tmp", s.readFile(dir+"/f"), "in\n")
	s.same("what a command wrote to TMPDIR", s.readFile(tmp+"/own"), "own\n")
	if err := f.Remove(s.ctx, dir, &sandbox.RemoveOptions{Recursive: true}); err != nil {
		s.Errorf("remove: %v", err)
	}
	s.completed(s.shell(`[ ! -e "`+dir+`" ]`), 0, "", "")
}

func aSandboxCannotTakeItsDirectoriesAway(s *subject) {
	for _, harm := range []string{
		`rm -rf "$HOME"`, `rm -rf "$TMPDIR"`, `mv "$HOME" "$TMPDIR/x"`, `chmod 000 "$HOME"`, `chmod 000 "$TMPDIR"`,
		`cd /; rm -rf "$HOME"; ln -s /etc "$HOME"`, `cd /; rm -rf "$TMPDIR"; echo >"$TMPDIR"`, `cd /; d=$(dirname "$HOME"); [ "$d" = / ] || chmod 000 "$d"`, `cd /; d=$(dirname "$HOME"); [ "$d" = / ] || rm -rf "$d"`,
	} {
		s.shell("(" + harm + ") 2>/dev/null")
		s.completed(s.shell(`echo hi >f && cat f && echo tmp >"$TMPDIR/f" && cat "$TMPDIR/f" && rm "$TMPDIR/f" && [ "$(pwd -P)" = "$(cd "$HOME" && pwd -P)" ]`), 0, "hi\ntmp\n", "")
		s.same("the file after "+harm, s.readFile("f"), "hi\n")
		s.shell("(" + harm + ") 2>/dev/null")
		s.writeFile("g", harm)
		s.completed(s.shell("cat g; rm g"), 0, harm, "")
	}
}

func specialFilesDoNotBlock(s *subject) {
	s.completed(s.shell("mkdir dir; mkfifo dir/fifo; ln -s dir/fifo link; echo >dir/f; chmod 600 dir/fifo"), 0, "", "")
	names := []string{"dir/fifo", "link"}
	if s.backend.Info().DedicatedFiles {
		names = append(names, "/dev/zero", "/dev/null")
	}
	begin := time.Now()
	for _, name := range names {
		s.refused("read", name, s.readError(name), backend.ErrSpecialFile)
		s.refused("write", name, s.Files().WriteFile(s.ctx, name, []byte("x"), nil), backend.ErrSpecialFile)
		s.refused("read tar", name, s.tarError(name), backend.ErrSpecialFile)
		s.refused("list", name, s.firstError(name, false), backend.ErrNotDirectory)
		if got := kind(s.stat(name).Mode); got != "special" {
			s.Errorf("%s is a %s, want special", name, got)
		}
	}
	s.prompt("the work", time.Since(begin), 0)
	s.same("the directory", s.list(".", true), "dir dir\nfile dir/f\nspecial dir/fifo\nlink link -> dir/fifo\n")
	r, err := s.Files().ReadTar(s.ctx, "dir")
	if got := s.entries(strings.NewReader(s.content("archive", r, err))); strings.Contains(got, "fifo") || !strings.Contains(got, "file f") {
		s.Errorf("the archive has %q, want the file moved", got)
	}
	if err := s.Files().Rename(s.ctx, "dir/fifo", "fifo"); err != nil {
		s.Errorf("rename: %v", err)
	}
	if err := s.Files().Remove(s.ctx, "fifo", nil); err != nil {
		s.Errorf("remove: %v", err)
	}
}

func oddNamesAreRefusedWithAReason(s *subject) {
	s.writeFile("f", "kept")
	refused := []error{fs.ErrInvalid, fs.ErrPermission, backend.ErrSpecialFile, backend.ErrOutside}
	s.refused("read", "/proc/self/mem", s.readError("/proc/self/mem"), refused...)
	for _, name := range []string{"/dev/null", "/proc/f"} {
		s.causedBy("rename to "+name, s.Files().Rename(s.ctx, "f", name), append(refused, fs.ErrNotExist)...)
	}
	r, err := s.Files().ReadTar(s.ctx, "/")
	if err == nil {
		r.Close()
	}
	s.causedBy("read tar of /", err, refused...)
	s.same("the file", s.readFile("f"), "kept")
}

func whatChangesDoesNotBlock(s *subject) {
	e := s.start(sandbox.Command{Shell: `
mkfifo fifo; mkdir dir; echo content >file; ln -s file link
while :; do
	for x in fifo dir file link; do mv $x f; mv f $x; done
	printf x >>turns
done 2>/dev/null`})
	s.eventually("the file changes", func() bool { return s.size("turns") > 0 })
	ctx, cancel := context.WithTimeout(s.ctx, soon)
	defer cancel()
	var all sync.WaitGroup
	for begin := time.Now(); time.Since(begin) < 4*restTime; all.Wait() {
		for range 4 {
			all.Go(func() {
				r, err := s.Files().Open(ctx, "f", nil)
				var p *fs.PathError
				if err != nil && !errors.As(err, &p) {
					s.Errorf("read: %v", err)
				} else if err == nil {
					s.same("the file", s.content("f", r, nil), "content\n")
				}
			})
		}
	}
	s.ended(s.cancel(e), sandbox.Cancelled, none)
}

func noNameLeadsOutside(s *subject) {
	outside := s.hostDir()
	host := filepath.Join(outside, "secret")
	if err := os.WriteFile(host, []byte("secret"), 0o666); err != nil {
		s.Fatalf("write: %v", err)
	}
	if err := os.Chmod(host, 0o666); err != nil {
		s.Fatalf("chmod: %v", err)
	}
	up := strings.Repeat("../", 30)
	s.writeFile("mine", "mine")
	s.links(".", "abs", outside, "rel", up+outside, "file", host, "gone", outside+"/new", "sub/over", "../abs")
	f := s.Files()
	tmp := "/tmp/" + filepath.Base(outside)
	s.links(tmp, "abs", outside, "rel", up+outside, "file", host)
	defer f.Remove(s.ctx, tmp, &sandbox.RemoveOptions{Recursive: true})
	for _, name := range []string{
		tmp + "/abs/secret", tmp + "/rel/secret", tmp + "/file", "/tmp/.." + host, host, up + host, "abs/secret", "rel/secret", "sub/over/secret", "file", "gone", "abs/../" + filepath.Base(outside) + "/secret",
	} {
		hidden := []error{backend.ErrOutside, fs.ErrNotExist, fs.ErrPermission}
		s.refused("read", name, s.readError(name), hidden...)
		_, err := f.Stat(s.ctx, name)
		s.refused("stat", name, err, hidden...)
		s.refused("read tar", name, s.tarError(name), hidden...)
	}
	for _, name := range []string{tmp + "/abs/secret", tmp + "/rel/secret", tmp + "/file", "/tmp/.." + host, host, up + host, "abs/secret", "rel/secret", "file", "gone", "sub/over/secret"} {
		// It may succeed, where the sandbox has room of its own under such a name.
		f.WriteFile(s.ctx, name, []byte("changed"), &sandbox.WriteOptions{Mode: 0o600})
		f.Chmod(s.ctx, name, 0o600)
		f.MkdirAll(s.ctx, name+"s/d", 0o755)
		f.WriteTar(s.ctx, name+"s", s.archive(tar.Header{Name: "x"}))
		f.Rename(s.ctx, "mine", name+"s/mine")
		f.Rename(s.ctx, name, "stolen")
		f.Remove(s.ctx, name, &sandbox.RemoveOptions{Recursive: true})
	}
	s.refused("remove", up, f.Remove(s.ctx, up, &sandbox.RemoveOptions{Recursive: true}), backend.ErrOutside, fs.ErrPermission, fs.ErrInvalid)
	if got, err := os.ReadFile(host); err != nil || string(got) != "secret" {
		s.Errorf("the file outside is now %q, %v; want it as it was", got, err)
	}
	if info, err := os.Stat(host); err != nil || info.Mode() != 0o666 {
		s.Errorf("the file outside now has the mode %v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		s.Errorf("outside there is now %v, %v; want one file", entries, err)
	}
}

func filesHaveTheRightsOfCommands(s *subject) {
	s.completed(s.shell("mkdir closed unwritable; echo >closed/f; echo >unreadable; chmod 0 closed unreadable; chmod 555 unwritable"), 0, "", "")
	defer s.shell("chmod 755 closed unwritable")
	refused := []error{fs.ErrPermission, backend.ErrOutside, fs.ErrNotExist}
	for _, name := range []string{"unreadable", "closed/f", "/etc/shadow", "/proc/1/environ", "/proc/1/root/etc/hostname"} {
		if rec := s.runCommand(sandbox.Command{Argv: []string{"cat", name}}); *rec.ExitCode != 0 {
			s.refused("read", name, s.readError(name), refused...)
		}
	}
	for _, dir := range []string{"unwritable", "closed", "/", "/etc", "/usr/bin"} {
		name := dir + "/backendtest"
		if rec := s.shell("test -w " + dir); *rec.ExitCode != 0 {
			s.refused("write", name, s.Files().WriteFile(s.ctx, name, []byte("x"), nil), refused...)
			s.refused("mkdir", name, s.Files().MkdirAll(s.ctx, name, 0o755), refused...)
		}
	}
}

func filesEndWithTheSandbox(s *subject) {
	sb := s.newSandbox()
	other := s.in(sb)
	other.writeFile("f", strings.Repeat("x", 8<<20))
	r, err := sb.Files().Open(s.ctx, "f", nil)
	if err != nil {
		s.Fatalf("read: %v", err)
	}
	time.Sleep(restTime) // until all is full that lies between
	begin := time.Now()
	s.closing("the sandbox", sb.Close)
	s.prompt("the close", time.Since(begin), 0)
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, sandbox.ErrClosed) {
		s.Errorf("reading on in a closed sandbox: %v", err)
	}
	r.Close()
	if err := other.readError("f"); !errors.Is(err, sandbox.ErrClosed) {
		s.Errorf("read in a closed sandbox: %v", err)
	}
	sb = s.newSandbox()
	var headers []tar.Header
	for i := range 3000 {
		headers = append(headers, tar.Header{Name: fmt.Sprintf("%04d%s", i, strings.Repeat("long", 50)), Mode: 0o644})
	}
	if err := sb.Files().WriteTar(s.ctx, ".", s.archive(headers...)); err != nil {
		s.Fatalf("write tar: %v", err)
	}
	var last error
	for _, last = range sb.Files().List(s.ctx, ".", nil) {
		if sb.Info().Status == sandbox.SandboxRunning {
			time.Sleep(restTime)
			begin := time.Now()
			s.closing("the sandbox", sb.Close)
			s.prompt("the close beside a list", time.Since(begin), 0)
		}
	}
	if !errors.Is(last, sandbox.ErrClosed) {
		s.Errorf("a list in a closed sandbox ends with %v, want %v", last, sandbox.ErrClosed)
	}
	i := s.create(s.backend, "sbx_files")
	s.closing("the instance", i.Destroy)
	if err := i.(backend.Filer).File(s.ctx, &backend.FileRequest{Op: backend.FileMkdir, Name: "d", Mode: 0o755}); err == nil {
		s.Errorf("a directory was made in a destroyed sandbox")
	}
}

// hostDir makes a directory of this machine that everybody may change. It is not in
// /tmp, which is a sandbox's own or one that it shares.
func (s *subject) hostDir() string {
	s.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "backendtest-")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		s.Fatalf("directory: %v", err)
	}
	s.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func lastLine(text string) string {
	text = strings.TrimSuffix(text, "\n")
	return text[strings.LastIndexByte(text, '\n')+1:]
}
