package files

import (
	"archive/tar"
	"bytes"
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

func (t *Tree) ReadTar(ctx context.Context, name string) (io.ReadCloser, error) {
	info, err := t.place.Stat(name)
	if err == nil && !info.IsDir() {
		err = regular(info)
	}
	if err != nil {
		return nil, pathError("read tar", name, err)
	}
	if info.IsDir() {
		if err := t.readable(ctx, name); err != nil {
			return nil, err
		}
	}
	r, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	go func() {
		defer stop()
		w.CloseWithError(t.writeTar(ctx, w, name, info))
	}()
	return r, nil
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
		return pathError("read tar", name, err)
	}
	defer dir.Close()
	for _, entry := range names {
		full := join(name, entry)
		info, err := t.place.Lstat(full)
		if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
			continue
		}
		if err := mayRead(dir, entry, info); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return pathError("read tar", full, err)
		}
		if info.IsDir() {
			if err := t.readable(ctx, full); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeTar writes the archive of name. On an error it lacks its end marker.
func (t *Tree) writeTar(ctx context.Context, w io.Writer, name string, info fs.FileInfo) error {
	archive := tar.NewWriter(w)
	if !info.IsDir() {
		if err := t.addFile(archive, path.Base(name), name); err != nil {
			return err
		}
		return archive.Close()
	}
	for d, err := range t.List(ctx, name, true) {
		if err != nil {
			return err
		}
		if err := t.add(archive, name, d); err != nil {
			return pathError("read tar", d.Path, err)
		}
	}
	return archive.Close()
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

func (t *Tree) WriteTar(ctx context.Context, name string, archive io.Reader) error {
	dir, err := t.openDir(name)
	if err != nil {
		return pathError("write tar", name, err)
	}
	defer dir.Close()
	source := &marked{Reader: readFrom(ctx, archive)}
	entries := tar.NewReader(source)
	var dirs []*tar.Header // which may not let files in, and have new times with each
	for {
		source.zeros = 0
		header, err := entries.Next()
		if err == io.EOF && source.zeros < blockSize {
			err = io.ErrUnexpectedEOF
		}
		if err == io.EOF {
			break
		}
		if err == nil && !describes(header) {
			err = unpack(dir, header, entries)
			if err != nil {
				return pathError("write tar", header.Name, err)
			}
			if header.Typeflag == tar.TypeDir || header.Typeflag == typeDumpDir {
				dirs = append(dirs, header)
			}
		}
		if err == nil {
			_, err = io.Copy(io.Discard, entries)
		}
		if err != nil {
			return pathError("write tar", name, err)
		}
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
			return pathError("write tar", header.Name, err)
		}
	}
	return nil
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
	if err := t.Mkdir(context.Background(), name, 0o755); err != nil {
		return nil, err
	}
	if t.root != nil {
		return t.root.OpenRoot(name)
	}
	return os.OpenRoot(name)
}

// unpack makes one entry of an archive.
func unpack(dir *os.Root, h *tar.Header, content io.Reader) error {
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
		if err := In(dir, ".").create(context.Background(), name, content, fs.FileMode(h.Mode).Perm()); err != nil {
			return err
		}
		return dir.Chtimes(name, h.ModTime, h.ModTime)
	case tar.TypeSymlink:
		return dir.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return dir.Link(filepath.Clean(h.Linkname), name)
	}
	return backend.ErrSpecialFile
}
