package local

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/files"
)

var _ backend.Filer = (*instance)(nil)

// Files implements [backend.Filer]. What is reachable is the start directory and
// what is below it, under its own name, /workspace or /home/user.
func (i *instance) Files() backend.Files { return files.Translated(i.resolve) }

func (i *instance) resolve(name string) (f backend.Files, inside string, err error) {
	inside = name
	if filepath.IsAbs(name) {
		if inside, err = i.below(name); err != nil {
			return nil, "", err
		}
	}
	f, err = i.backend.runner.files(i)
	return f, inside, err
}

// below returns what an absolute name is below the start directory. It is not
// cleaned: where ".." leads is found out on the way.
func (i *instance) below(name string) (string, error) {
	for _, start := range append(aliases[:], i.work()) {
		rest, ok := strings.CutPrefix(name, start)
		if ok && (rest == "" || rest[0] == '/') {
			return "." + rest, nil
		}
	}
	return "", backend.ErrOutside
}

// tree returns the files as the service itself reaches them.
func (i *instance) tree() (backend.Files, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.destroying != nil || i.destroyed {
		return nil, errDestroyed
	}
	if err := i.restore(); err != nil {
		return nil, err
	}
	if i.open != nil { // of a start directory that may be another by now
		now, err := os.Stat(i.work())
		opened, openErr := i.open.Stat(".")
		if err != nil || openErr != nil || !os.SameFile(now, opened) {
			i.open.Close()
			i.open = nil
		}
	}
	if i.open == nil {
		root, err := os.OpenRoot(i.work())
		if err != nil {
			return nil, withoutPath(err)
		}
		i.open = root
	}
	return files.In(i.open, "."), nil
}
