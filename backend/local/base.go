package local

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// A base is the directory for a backend's sandboxes. It is locked while the
// service lives, so that another service can tell one that was left behind.
type base struct {
	path string

	mu   sync.Mutex // guards lock
	lock *os.File
}

// The names of bases, and of those that are not locked yet.
const (
	basePrefix = "sandbox-local-"
	rawPrefix  = ".sandbox-local-"
)

// newBase makes a base in dir. Others may pass through it, and not list it. It
// fails when they have to and cannot.
func newBase(dir string, others bool) (*base, error) {
	parent, err := filepath.Abs(cmp.Or(dir, os.TempDir()))
	if err != nil {
		return nil, err
	}
	if err := makeAll(parent); err != nil {
		return nil, err
	}
	if others {
		if err := passable(parent); err != nil {
			return nil, err
		}
	}
	sweepBases(parent)
	raw, err := os.MkdirTemp(parent, rawPrefix)
	if err != nil {
		return nil, err
	}
	b := &base{path: filepath.Join(parent, basePrefix+strings.TrimPrefix(filepath.Base(raw), rawPrefix))}
	if err = os.Chmod(raw, 0o711); err == nil {
		b.lock, err = lockDir(raw)
	}
	if err == nil {
		err = os.Rename(raw, b.path)
	}
	if err != nil {
		b.lock.Close()
		os.Remove(raw)
		return nil, err
	}
	return b, nil
}

// restore makes the base again, if it is gone.
func (b *base) restore() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := mkdir(b.path, 0o711)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	lock, err := lockDir(b.path)
	if err != nil {
		return err
	}
	b.lock.Close()
	b.lock = lock
	return nil
}

// makeAll makes dir and what is missing above it, so that others may pass through them.
func makeAll(dir string) error {
	err := mkdir(dir, 0o711)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeAll(filepath.Dir(dir)); err == nil {
			err = mkdir(dir, 0o711)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// mkdir makes a directory of that mode, whatever the service's umask is.
func mkdir(dir string, mode fs.FileMode) error {
	if err := os.Mkdir(dir, mode); err != nil {
		return err
	}
	return os.Chmod(dir, mode)
}

// remove removes the base, of which sandboxes that could not be destroyed may be
// left.
func (b *base) remove() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.lock.Close()
	return remove(b.path)
}

// sweepBases removes the bases in dir whose services are gone. What cannot be
// removed now is left to the next.
func sweepBases(dir string) {
	names, err := filepath.Glob(filepath.Join(dir, basePrefix+"*"))
	if err != nil {
		return
	}
	for _, name := range names {
		if lock, err := lockDir(name); err == nil {
			remove(name)
			lock.Close()
		}
	}
}

// passable says which part of dir others cannot pass through, if any.
func passable(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for d := real; ; d = filepath.Dir(d) {
		info, err := os.Stat(d)
		if err != nil {
			return err
		}
		if info.Mode()&0o001 == 0 {
			return fmt.Errorf("%s is closed to others, and with it %s to the sandboxes' users: choose another Options.Dir", d, dir)
		}
		if d == filepath.Dir(d) {
			return nil
		}
	}
}
