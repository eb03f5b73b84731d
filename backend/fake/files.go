package fake

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/files"
)

var _ backend.Filer = (*instance)(nil)

// File implements [backend.Filer].
func (i *instance) File(ctx context.Context, r *backend.FileRequest) error {
	return files.Translated(ctx, r, resolve, func(string) (backend.Filer, error) {
		root, err := i.files()
		if err != nil {
			return nil, err
		}
		return files.In(root, filepath.Join(root.Name(), "workspace")), nil
	})
}

// Root returns the file system of the process's sandbox, in which "workspace" is the
// start directory, or an error when the sandbox has ended. It lies in a temporary
// directory of the machine's, which is made when it is first needed and goes with the
// sandbox. It is not to be closed.
func (p *Process) Root() (*os.Root, error) { return p.command.inst.files() }

// resolve returns the name below the directory that is the sandbox's root.
func resolve(name string) (dir, inside string, err error) {
	if !path.IsAbs(name) {
		name = "/workspace/" + name
	} else if rest, ok := strings.CutPrefix(name, "/home/user"); ok && (rest == "" || rest[0] == '/') {
		name = "/workspace" + rest
	}
	return "", "." + name, nil
}

// files returns the sandbox's file system, and makes it on the first call.
func (i *instance) files() (*os.Root, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.lost || i.closing {
		return nil, errGone
	}
	if i.root != nil {
		return i.root, nil
	}
	dir, err := os.MkdirTemp("", "sandbox-fake-")
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err == nil {
		err = errors.Join(
			root.Mkdir("workspace", 0o755),
			root.Mkdir("tmp", 0o755),
			root.Mkdir("home", 0o755),
			root.Symlink("../workspace", "home/user"),
		)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	i.root = root
	return root, nil
}

// removeFiles removes what files has made.
func (i *instance) removeFiles() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.root == nil {
		return nil
	}
	dir := i.root.Name()
	err := i.root.Close()
	i.root = nil
	filepath.WalkDir(dir, func(name string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			os.Chmod(name, 0o700) // it may be closed to us, who have made it
		}
		return nil
	})
	return errors.Join(err, os.RemoveAll(dir))
}
