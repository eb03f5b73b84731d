package local

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/files"
)

var _ backend.Filer = (*instance)(nil)

// File implements [backend.Filer]. What is reachable is what is below the start
// directory, under its own name, /workspace or /home/user, below TMPDIR, and below the
// machine's /tmp, where commands and files mean the same place. No name leads out of
// the one of them in which it begins.
func (i *instance) File(ctx context.Context, r *backend.FileRequest) error {
	return files.Translated(ctx, r, i.resolve, func(dir string) (backend.Filer, error) { return i.backend.runner.files(i, dir) })
}

// resolve returns the directory in which a name begins, and the rest of the name. It is
// not cleaned: where ".." leads is found out on the way.
func (i *instance) resolve(name string) (dir, inside string, err error) {
	if !filepath.IsAbs(name) {
		return i.work(), name, nil
	}
	for _, d := range []struct{ name, dir string }{
		{aliases[0], i.work()}, {aliases[1], i.work()}, {i.work(), i.work()}, {i.tmp(), i.tmp()}, {hostTmp, hostTmp},
	} {
		rest, ok := strings.CutPrefix(name, d.name)
		if ok && (rest == "" || rest[0] == '/') {
			return d.dir, "." + rest, nil
		}
	}
	return "", "", backend.ErrOutside
}

// hostTmp is where programs put files whatever TMPDIR says.
const hostTmp = "/tmp"

// tree returns the files below dir as the service itself reaches them.
func (i *instance) tree(dir string) (backend.Filer, error) {
	if !i.destruction.Use() {
		return nil, errDestroyed
	}
	defer i.destruction.Unuse()
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.restore(); err != nil {
		return nil, err
	}
	root := i.open[dir]
	if root != nil { // of a directory that may be another by now
		now, err := os.Stat(dir)
		opened, openErr := root.Stat(".")
		if err != nil || openErr != nil || !os.SameFile(now, opened) {
			root.Close()
			root = nil
		}
	}
	if root == nil {
		var err error
		if root, err = os.OpenRoot(dir); err != nil {
			delete(i.open, dir)
			return nil, withoutPath(err)
		}
		i.open[dir] = root
	}
	return files.In(root, i.work()), nil
}
