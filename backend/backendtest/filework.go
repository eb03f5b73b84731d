package backendtest

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/sandbox-go/sandbox"
)

// writeFile writes a file, and makes its directory.
func (s *subject) writeFile(name, content string) {
	s.Helper()
	if err := s.Files().WriteFile(s.ctx, name, []byte(content), &sandbox.WriteOptions{Mode: 0o644, Parents: true}); err != nil {
		s.Errorf("write %q: %v", name, err)
	}
}

func (s *subject) readFile(name string) string {
	s.Helper()
	return s.readPart(name, 0, 0)
}

func (s *subject) readPart(name string, offset, limit int64) string {
	s.Helper()
	r, err := s.Files().Open(s.ctx, name, &sandbox.ReadOptions{Offset: offset, Limit: limit})
	return s.content(name, r, err)
}

// content reads r to its end.
func (s *subject) content(name string, r io.ReadCloser, err error) string {
	s.Helper()
	if err != nil {
		s.Errorf("read %q: %v", name, err)
		return ""
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		s.Errorf("read %q: %v", name, err)
	}
	return string(content)
}

func (s *subject) stat(name string) sandbox.FileInfo {
	s.Helper()
	info, err := s.Files().Stat(s.ctx, name)
	if err != nil {
		s.Errorf("stat %q: %v", name, err)
	}
	return info
}

// list renders a listing, a file a line.
func (s *subject) list(name string, recursive bool) string {
	s.Helper()
	var b strings.Builder
	for info, err := range s.Files().List(s.ctx, name, &sandbox.ListOptions{Recursive: recursive}) {
		if err != nil {
			s.Errorf("list %q: %v", name, err)
			break
		}
		fmt.Fprintf(&b, "%s %s", kind(info.Mode), info.Path)
		if info.Target != "" {
			fmt.Fprintf(&b, " -> %s", info.Target)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "dir"
	case mode&fs.ModeSymlink != 0:
		return "link"
	}
	return "special"
}

// links makes symbolic links below dir, of pairs of a name and what it says.
func (s *subject) links(dir string, pairs ...string) {
	s.Helper()
	var headers []tar.Header
	for i := 0; i < len(pairs); i += 2 {
		headers = append(headers, tar.Header{Typeflag: tar.TypeSymlink, Name: pairs[i], Linkname: pairs[i+1]})
	}
	if err := s.Files().WriteTar(s.ctx, dir, s.archive(headers...)); err != nil {
		s.Fatalf("links: %v", err)
	}
}

// archive makes a tar archive. The content of a file is as many x as its size.
func (s *subject) archive(headers ...tar.Header) *bytes.Reader {
	s.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		err := w.WriteHeader(&h)
		if err == nil {
			_, err = io.WriteString(w, strings.Repeat("x", int(h.Size)))
		}
		if err != nil {
			s.Fatalf("archive: %v", err)
		}
	}
	if err := w.Close(); err != nil {
		s.Fatalf("archive: %v", err)
	}
	return bytes.NewReader(b.Bytes())
}

// refused checks that err is about that name and has one of the causes.
func (s *subject) refused(what, name string, err error, causes ...error) {
	s.Helper()
	var p *fs.PathError
	var of *sandbox.Error
	if !errors.As(err, &of) || !errors.As(err, &p) || p.Path != name {
		s.Errorf("%s of %q: want an *Error over a *PathError with the name, got %v", what, name, err)
		return
	}
	s.causedBy(fmt.Sprintf("%s of %q", what, name), err, causes...)
}

// causedBy checks that err has one of the causes.
func (s *subject) causedBy(what string, err error, causes ...error) {
	s.Helper()
	for _, cause := range causes {
		if errors.Is(err, cause) {
			return
		}
	}
	s.Errorf("%s: want %q, got %v", what, causes, err)
}

// firstError returns the error of a listing, or nil.
func (s *subject) firstError(name string, recursive bool) error {
	for _, err := range s.Files().List(s.ctx, name, &sandbox.ListOptions{Recursive: recursive}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// readError returns the error of a read, or nil.
func (s *subject) readError(name string) error {
	r, err := s.Files().Open(s.ctx, name, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err
}

// tarError is readError of a directory's archive.
func (s *subject) tarError(name string) error {
	r, err := s.Files().ReadTar(s.ctx, name)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err
}
