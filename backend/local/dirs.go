package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/host"
)

func (i *instance) work() string { return filepath.Join(i.root, "work") }
func (i *instance) tmp() string  { return filepath.Join(i.root, "tmp") }

// makeDirs makes the sandbox's directories. The one above the start directory is the
// service's: the sandbox's own user may pass through it, and move nothing in it.
func (i *instance) makeDirs() error {
	if err := host.Mkdir(i.root, 0o700); err != nil {
		return err
	}
	if i.user.own {
		err := os.Chown(i.root, os.Geteuid(), int(i.user.id))
		if err == nil {
			err = os.Chmod(i.root, 0o710)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(i.makeDir(i.work()), i.makeDir(i.tmp()))
}

// makeDir makes a directory of the sandbox's user.
func (i *instance) makeDir(dir string) error {
	err := host.Mkdir(dir, 0o700)
	if err == nil && i.user.own {
		err = os.Chown(dir, int(i.user.id), int(i.user.id))
	}
	return err
}

// restore has the start directory and TMPDIR be there, open to their user, whatever
// commands have done to them. What is in the place of one, and is no directory of
// that user's, is removed.
func (i *instance) restore() error {
	if i.usable(i.root, i.user.own) && i.usable(i.work(), false) && i.usable(i.tmp(), false) {
		return nil
	}
	i.restoring.Lock()
	defer i.restoring.Unlock()
	var err error
	if !i.user.own { // whose commands may have removed what is the service's, too
		if err = i.backend.base.Restore(); err == nil {
			err = i.restoreDir(i.root)
		}
	}
	for _, dir := range []string{i.work(), i.tmp()} {
		if err == nil {
			err = i.restoreDir(dir)
		}
	}
	if err != nil {
		return fmt.Errorf("local: the start directory cannot be made again: %w", withoutPath(err))
	}
	return nil
}

// usable reports whether dir is a directory of the sandbox's user, or of the service,
// that its owner may use.
func (i *instance) usable(dir string, services bool) bool {
	owner := i.user.id
	if services {
		owner = uint32(max(os.Geteuid(), 0))
	}
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && host.OwnedBy(info, owner) && info.Mode()&0o700 == 0o700
}

func (i *instance) restoreDir(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return i.makeDir(dir)
	case err != nil:
		return err
	case info.IsDir() && host.OwnedBy(info, i.user.id):
		return i.openDir(dir, info.Mode().Perm()|0o700)
	case info.IsDir():
		err = host.Remove(dir)
	default:
		err = os.Remove(dir)
	}
	if err != nil {
		return err
	}
	return i.makeDir(dir)
}

// openDir changes the mode of a directory of the sandbox's user. A service that may
// change only what is its own takes it for so long; nobody can put another in its
// place, since what is above is the service's.
func (i *instance) openDir(dir string, mode fs.FileMode) error {
	err := os.Chmod(dir, mode)
	if !errors.Is(err, fs.ErrPermission) || !i.user.own {
		return err
	}
	if err := os.Chown(dir, os.Geteuid(), os.Getegid()); err != nil {
		return err
	}
	err = os.Chmod(dir, mode)
	return errors.Join(err, os.Chown(dir, int(i.user.id), int(i.user.id)))
}

// withoutPath returns an error of a file without the file's name, which is the
// host's and nobody's affair.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Op, p.Err)
	}
	return err
}

// told returns a start error with the names that the sandbox's directories have for
// its user. That there is no start directory is no fault of who named none.
func (i *instance) told(err error, dir string) error {
	var start *backend.StartError
	if !errors.As(err, &start) {
		return err
	}
	if dir == "" && start.Reason == backend.BadDirectory {
		return &backend.StartError{
			Reason: backend.CannotStart,
			Detail: "the start directory was taken away while the command started: try again",
		}
	}
	told := *start
	names := strings.NewReplacer(i.work(), aliases[0], i.tmp(), "$TMPDIR")
	told.Path, told.Detail = names.Replace(start.Path), names.Replace(start.Detail)
	return &told
}
