package files

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

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
	r, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	go func() {
		defer stop()
		w.CloseWithError(t.writeTar(ctx, w, name, info))
	}()
	return r, nil
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
	_, err = io.CopyN(archive, f, info.Size())
	if err == io.EOF {
		return errors.New("it shrank while it was read")
	}
	return err
}

func (t *Tree) WriteTar(ctx context.Context, name string, archive io.Reader) error {
	dir, err := t.openDir(name)
	if err != nil {
		return pathError("write tar", name, err)
	}
	defer dir.Close()
	entries := tar.NewReader(bounded{ctx, archive})
	modes := make(map[string]fs.FileMode) // of directories, which may not let files in
	for {
		header, err := entries.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return pathError("write tar", name, err)
		}
		if err := unpack(dir, header, entries); err != nil {
			return pathError("write tar", header.Name, err)
		}
		if header.Typeflag == tar.TypeDir {
			modes[filepath.Clean(header.Name)] = fs.FileMode(header.Mode).Perm()
		}
	}
	delete(modes, ".")
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(modes))) {
		if err := dir.Chmod(name, modes[name]); err != nil {
			return pathError("write tar", name, err)
		}
	}
	return nil
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
	if h.Typeflag == tar.TypeDir {
		return dir.MkdirAll(name, 0o755)
	}
	if err := dir.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		if err := In(dir).create(context.Background(), name, content, fs.FileMode(h.Mode).Perm()); err != nil {
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
