package fake

import (
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

// Files returns the sandbox's files. They lie in a temporary directory of the
// machine's, which is made when they are first asked for, and goes with the
// sandbox.
func (i *instance) Files() backend.Files {
	return files.Translated(i.resolve)
}

// Files returns the files of the process's sandbox.
func (p *Process) Files() backend.Files { return p.command.inst.Files() }

// resolve returns the name below the directory that is the sandbox's root.
func (i *instance) resolve(name string) (backend.Files, string, error) {
	if !path.IsAbs(name) {
		name = "/workspace/" + name
	} else if rest, ok := strings.CutPrefix(name, "/home/user"); ok && (rest == "" || rest[0] == '/') {
		name = "/workspace" + rest
	}
	tree, err := i.tree()
	return tree, "." + name, err
}

// tree returns the sandbox's files, and makes them on the first call.
func (i *instance) tree() (backend.Files, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.lost || i.closing {
		return nil, errGone
	}
	if i.root != nil {
		return i.files(), nil
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
	return i.files(), nil
}

func (i *instance) files() backend.Files {
	return files.In(i.root, filepath.Join(i.root.Name(), "workspace"))
}

// removeFiles removes what tree has made.
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
