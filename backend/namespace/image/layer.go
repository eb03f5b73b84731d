package image

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	securejoin "github.com/cyphar/filepath-securejoin"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// What a layer has in the place of files of lower layers that are removed (the OCI image
// specification, layer.md).
const (
	whiteout = ".wh."
	metadata = ".wh..wh."
	opaque   = ".wh..wh..opq"
)

// apply unpacks a layer over what is in dir, and checks that it has that digest.
func apply(ctx context.Context, dir string, layer v1.Layer, want v1.Hash, left *budget) error {
	content, err := layer.Uncompressed()
	if err != nil {
		return err
	}
	defer content.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	// What is not written, as headers and padding, counts too, so that nothing is read for ever.
	stream := &spender{ctx: ctx, from: content, budget: &budget{left: left.left}}
	hash := sha256.New()
	all := bufio.NewReaderSize(io.TeeReader(stream, hash), 64<<10)
	l := &layerWriter{dir: dir, root: root, left: left, made: make(map[string]bool)}
	for r := tar.NewReader(all); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = l.add(h, &spender{ctx, r, left})
		}
		if err != nil {
			if h != nil {
				err = fmt.Errorf("%q: %w", h.Name, err)
			}
			return err
		}
	}
	if _, err := io.Copy(io.Discard, all); err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); want.Algorithm != "sha256" || got != want.Hex {
		return fmt.Errorf("it has the digest sha256:%s, and its image says %s", got, want)
	}
	return nil
}

// A layerWriter writes the files of a layer. Names are as in the directory as a root: links
// of lower layers lead to where they would in a sandbox. What resolves a name does not hold
// the files to that; root does.
type layerWriter struct {
	dir  string
	root *os.Root
	left *budget
	made map[string]bool // by this layer
}

// resolve returns the path of a name below root, whose last part is not followed.
func (l *layerWriter) resolve(name string) (string, error) {
	clean := path.Clean("/" + name)
	parent, err := securejoin.SecureJoin(l.dir, path.Dir(clean))
	if err == nil {
		parent, err = filepath.Rel(l.dir, parent)
	}
	return filepath.Join(parent, path.Base(clean)), err
}

// add does what one entry of the layer says.
func (l *layerWriter) add(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader || path.Clean("/"+h.Name) == "/" {
		return nil
	}
	name, err := l.resolve(h.Name)
	if err != nil {
		return err
	}
	base := filepath.Base(name)
	switch {
	case base == opaque:
		return l.empty(filepath.Dir(name))
	case strings.HasPrefix(base, metadata):
		return nil
	case strings.HasPrefix(base, whiteout):
		return l.remove(filepath.Dir(name), strings.TrimPrefix(base, whiteout))
	}
	return l.make(name, h, content)
}

// remove removes what a lower layer has in dir under a name.
func (l *layerWriter) remove(dir, base string) error {
	name := filepath.Join(dir, base)
	if base == "" || base == "." || base == ".." || l.made[name] {
		return nil
	}
	return l.root.RemoveAll(name)
}

// empty removes what lower layers have in a directory.
func (l *layerWriter) empty(dir string) error {
	f, err := l.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	f.Close()
	for _, name := range names {
		if err != nil {
			break
		}
		at := filepath.Join(dir, name)
		if info, statErr := l.root.Lstat(at); statErr == nil && info.IsDir() && l.made[at] {
			err = l.empty(at) // of what lower layers have in it
		} else {
			err = l.remove(dir, name)
		}
	}
	return err
}

// make makes a file, whatever lower layers have in its place.
func (l *layerWriter) make(name string, h *tar.Header, content io.Reader) error {
	if err := l.mkdirAll(filepath.Dir(name)); err != nil {
		return err
	}
	if err := l.left.spend(entrySize); err != nil {
		return err
	}
	old, err := l.root.Lstat(name)
	there := err == nil
	if there && !(h.Typeflag == tar.TypeDir && old.IsDir()) {
		if err := l.root.RemoveAll(name); err != nil {
			return err
		}
		there = false
	}
	l.made[name] = true
	switch h.Typeflag {
	case tar.TypeDir:
		if !there {
			if err := l.root.Mkdir(name, 0o755); err != nil {
				return err
			}
		}
		return l.root.Chmod(name, permissions(h))
	case tar.TypeReg, tar.TypeGNUSparse:
		create := func(name string) (*os.File, error) {
			return l.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		}
		if err := writeFile(create, name, content); err != nil {
			return err
		}
		if err := l.root.Chmod(name, permissions(h)); err != nil {
			return err
		}
		return l.root.Chtimes(name, time.Time{}, h.ModTime)
	case tar.TypeSymlink:
		return l.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		target, err := l.resolve(h.Linkname)
		if err != nil {
			return err
		}
		return l.root.Link(target, name)
	}
	return nil // a device, a FIFO
}

// mkdirAll makes a directory, and what is missing above it, and takes them for this layer's.
func (l *layerWriter) mkdirAll(name string) error {
	if l.made[name] || name == "." {
		return nil
	}
	if err := l.mkdirAll(filepath.Dir(name)); err != nil {
		return err
	}
	l.made[name] = true
	err := l.root.Mkdir(name, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = l.left.spend(entrySize)
	}
	if err == nil {
		err = l.root.Chmod(name, 0o755) // whatever the umask is
	}
	return err
}

// permissions returns the mode of a file or directory. Sandboxes' users are none that the
// image knows, so everybody gets what the owner has. Root's files are writable for root
// alone, since others on the machine can reach them.
func permissions(h *tar.Header) fs.FileMode {
	mode := fs.FileMode(h.Mode)&0o777 | 0o600
	if h.Typeflag == tar.TypeDir {
		mode |= 0o700
	}
	others := mode >> 6 & 0o7
	if os.Geteuid() == 0 {
		others &^= 0o2
		mode &^= 0o022
	}
	return mode | others
}
