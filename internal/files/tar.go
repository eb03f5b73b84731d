package files

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandbox-go/sandbox/backend"
)

// readTar writes an archive. On an error it lacks its end marker.
func (t *Tree) readTar(ctx context.Context, r *backend.FileRequest) error {
	info, err := t.place.Stat(r.Name)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(r.Output)
	if !info.IsDir() {
		err = t.addFile(archive, path.Base(r.Name), r.Name)
	} else if err = t.readable(ctx, r.Name); err == nil {
		err = t.walk(ctx, r.Name, "", true, func(d backend.FileInfo) error {
			found(r, d)
			return about(d.Path, t.add(archive, r.Name, d))
		})
	}
	if err != nil {
		return err
	}
	return archive.Close()
}

// found tells that an entry is packed or unpacked now.
func found(r *backend.FileRequest, d backend.FileInfo) {
	if r.Found != nil {
		r.Found(d)
	}
}

// readable says what in the directory name cannot be read, or nil: an archive that
// would break off there is better not begun.
func (t *Tree) readable(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	dir, names, err := t.openNames(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed meanwhile
	}
	if err != nil {
		return about(name, err)
	}
	defer dir.Close()
	for _, entry := range names {
		full := join(name, entry)
		info, err := t.place.Lstat(full)
		if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
			continue
		}
		if err := mayRead(dir, entry, info); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return about(full, err)
		}
		if info.IsDir() {
			if err := t.readable(ctx, full); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Tree) add(archive *tar.Writer, name string, d backend.FileInfo) error {
	header := &tar.Header{Name: d.Path, Mode: int64(d.Mode.Perm()), ModTime: d.ModTime}
	switch {
	case d.Mode.IsRegular():
		err := t.addFile(archive, d.Path, name+"/"+d.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		return err
	case d.Mode.IsDir():
		header.Typeflag = tar.TypeDir
		header.Name += "/"
	case d.Mode&fs.ModeSymlink != 0:
		header.Typeflag = tar.TypeSymlink
		header.Linkname = d.Target
	default:
		return nil
	}
	return archive.WriteHeader(header)
}

func (t *Tree) addFile(archive *tar.Writer, entry, name string) error {
	f, info, err := t.openRegular(name)
	if err != nil {
		return err
	}
	defer f.Close()
	err = archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg,
		Name:     entry,
		Mode:     int64(info.Mode().Perm()),
		ModTime:  info.ModTime(),
		Size:     info.Size(),
	})
	if err != nil {
		return err
	}
	n, err := io.CopyN(archive, f, info.Size())
	if err == io.EOF { // it has shrunk; the archive is whole with zeros in place of the rest
		_, err = io.CopyN(archive, zeros{}, info.Size()-n)
	}
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// writeTar unpacks an archive, and reads what comes after its end marker.
func (t *Tree) writeTar(ctx context.Context, r *backend.FileRequest) error {
	dir, err := t.openDir(r.Name)
	if err != nil {
		return err
	}
	defer dir.Close()
	dirs, links, err := t.unpackAll(ctx, r, dir)
	if t.KeepInside {
		err = cmp.Or(err, removeOutside(dir, links))
	}
	if err != nil {
		return err
	}
	// What is below comes first, and of two entries for one directory the later last.
	slices.SortStableFunc(dirs, func(a, b *tar.Header) int {
		return strings.Compare(filepath.Clean(b.Name), filepath.Clean(a.Name))
	})
	for _, header := range dirs {
		name := filepath.Clean(header.Name)
		if name == "." {
			continue
		}
		err := dir.Chmod(name, fs.FileMode(header.Mode).Perm())
		if err == nil {
			err = dir.Chtimes(name, header.ModTime, header.ModTime)
		}
		if err != nil {
			return about(header.Name, err)
		}
	}
	_, err = io.Copy(io.Discard, r.Content)
	return err
}

// unpackAll unpacks each entry. It returns the directories, which may not let files in
// and have new times with each, and the symbolic links.
func (t *Tree) unpackAll(ctx context.Context, r *backend.FileRequest, dir *os.Root) (dirs, links []*tar.Header, err error) {
	source := &marked{Reader: r.Content}
	for entries := tar.NewReader(source); ; {
		source.zeros = 0
		header, err := entries.Next()
		switch {
		case err == io.EOF && source.zeros < blockSize:
			return dirs, links, io.ErrUnexpectedEOF
		case err == io.EOF:
			return dirs, links, nil
		case err == nil:
			err = ctx.Err()
		}
		if err == nil && !describes(header) {
			switch header.Typeflag {
			case tar.TypeDir, typeDumpDir:
				dirs = append(dirs, header)
			case tar.TypeSymlink, tar.TypeLink: // which may be another name of a symbolic link
				links = append(links, header)
			}
			found(r, backend.FileInfo{Path: header.Name, Size: header.Size})
			err = about(header.Name, t.unpack(dir, header, entries))
		}
		if err == nil {
			_, err = io.Copy(io.Discard, entries)
		}
		if err != nil {
			return dirs, links, err
		}
	}
}

// removeOutside removes the links that lead out of dir, and names the first of them.
// It is called when all are there, since one may lead through others.
func removeOutside(dir *os.Root, links []*tar.Header) (first error) {
	for _, link := range links {
		name := filepath.Clean(link.Name)
		if _, err := dir.Stat(name); err != nil && cause(err) == backend.ErrOutside {
			first = cmp.Or(first, about(link.Name, errors.Join(err, dir.Remove(name))))
		}
	}
	return first
}

// wanders reports whether it is not known where a symbolic link leads to: it begins
// somewhere else, or goes up from what may be another link by the time it is followed.
func wanders(link string) bool {
	down := false
	for part := range strings.SplitSeq(filepath.ToSlash(link), "/") {
		if part == ".." && down {
			return true
		}
		down = down || part != ".." && part != "." && part != ""
	}
	return path.IsAbs(link) || filepath.IsAbs(link)
}

// blockSize is what a tar archive is made of. It ends with blocks of zeros: one that
// was cut between two entries has none.
const blockSize = 512

// marked counts the zeros that the last bytes read are.
type marked struct {
	io.Reader
	zeros int
}

func (r *marked) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	rest := bytes.TrimRight(p[:n], "\x00")
	if len(rest) > 0 {
		r.zeros = 0
	}
	r.zeros += n - len(rest)
	return n, err
}

// The types of entries that GNU tar has of its own.
const (
	typeDumpDir = 'D' // a directory, with its list as content
	typeVolume  = 'V' // the name of the archive
)

// describes reports whether an entry is about the archive, and is no file.
func describes(h *tar.Header) bool {
	return h.Typeflag == tar.TypeXGlobalHeader || h.Typeflag == typeVolume
}

// openDir opens a directory, which it makes when it is missing, as one that no
// name leads out of.
func (t *Tree) openDir(name string) (*os.Root, error) {
	if err := t.mkdirAll(name, 0o755); err != nil {
		return nil, err
	}
	if t.root != nil {
		return t.root.OpenRoot(name)
	}
	return os.OpenRoot(name)
}

// unpack makes one entry of an archive.
func (t *Tree) unpack(dir *os.Root, h *tar.Header, content io.Reader) error {
	if !filepath.IsLocal(h.Name) {
		return backend.ErrOutside
	}
	name := filepath.Clean(h.Name)
	if h.Typeflag == tar.TypeDir || h.Typeflag == typeDumpDir {
		return dir.MkdirAll(name, 0o755)
	}
	if err := dir.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		in := In(dir, ".")
		f, err := in.create(name)
		if err == nil {
			err = in.fill(f, name, content, fs.FileMode(h.Mode).Perm())
		}
		if err != nil {
			return err
		}
		return dir.Chtimes(name, h.ModTime, h.ModTime)
	case tar.TypeSymlink:
		if t.KeepInside && wanders(h.Linkname) {
			return backend.ErrOutside
		}
		return dir.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return dir.Link(filepath.Clean(h.Linkname), name)
	}
	return backend.ErrSpecialFile
}
