package files

import (
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/sandbox-go/sandbox/backend"
)

// An fsys is where names lead: an *os.Root, out of which no name leads, or
// everywhere.
type fsys interface {
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Readlink(name string) (string, error)
	MkdirAll(name string, perm fs.FileMode) error
	Chmod(name string, mode fs.FileMode) error
	Remove(name string) error
	RemoveAll(name string) error
	Rename(from, to string) error
}

// hostFS is the whole file system.
type hostFS struct{}

func (hostFS) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}
func (hostFS) Stat(name string) (fs.FileInfo, error)        { return os.Stat(name) }
func (hostFS) Lstat(name string) (fs.FileInfo, error)       { return os.Lstat(name) }
func (hostFS) Readlink(name string) (string, error)         { return os.Readlink(name) }
func (hostFS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (hostFS) Chmod(name string, mode fs.FileMode) error    { return os.Chmod(name, mode) }
func (hostFS) Remove(name string) error                     { return os.Remove(name) }
func (hostFS) RemoveAll(name string) error                  { return os.RemoveAll(name) }
func (hostFS) Rename(from, to string) error                 { return os.Rename(from, to) }

// maxLinks is how many symbolic links are followed, as by Linux.
const maxLinks = 40

// target returns what name leads to, through symbolic links at its end, whether
// that exists or not.
func target(p fsys, name string) (string, error) {
	for range maxLinks {
		info, err := p.Lstat(name)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return name, nil // what is wrong with it shows when it is used
		}
		link, err := p.Readlink(name)
		if err != nil {
			return "", err
		}
		if path.IsAbs(link) {
			name = link
		} else {
			name = join(parent(name), link)
		}
	}
	return "", backend.ErrLinkLoop
}

// join and parent do not clean, as package path does: what ".." means after a
// symbolic link is the kernel's to say.
func join(dir, name string) string {
	if name == "" {
		return dir
	}
	return dir + "/" + name
}

func parent(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i+1]
	}
	return "."
}
