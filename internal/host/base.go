package host

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

// A Base is the directory for a backend's sandboxes. It is locked while the
// service lives, so that another service can tell one that was left behind.
type Base struct {
	Path string

	removeTree func(dir string) error

	mu   sync.Mutex // guards lock
	lock *os.File
}

// NewBase makes a base in dir, which is os.TempDir() where it is empty, and removes those
// that services of the same backend have left there. Others may pass through it, and not
// list it. It fails when they have to and cannot. Remove removes a tree, as [Remove] does,
// which nil is.
func NewBase(backend, dir string, others bool, remove func(dir string) error) (*Base, error) {
	if remove == nil {
		remove = Remove
	}
	parent, err := filepath.Abs(cmp.Or(dir, os.TempDir()))
	if err != nil {
		return nil, err
	}
	if err := MkdirAll(parent); err != nil {
		return nil, err
	}
	if others {
		if err := passable(parent); err != nil {
			return nil, err
		}
	}
	prefix := "sandbox-" + backend + "-"
	sweepBases(filepath.Join(parent, prefix+"*"), remove)
	raw, err := os.MkdirTemp(parent, "."+prefix) // it is not locked yet
	if err != nil {
		return nil, err
	}
	b := &Base{Path: filepath.Join(parent, strings.TrimPrefix(filepath.Base(raw), ".")), removeTree: remove}
	if err = os.Chmod(raw, 0o711); err == nil {
		b.lock, err = lockDir(raw)
	}
	if err == nil {
		err = os.Rename(raw, b.Path)
	}
	if err != nil {
		b.lock.Close()
		os.Remove(raw)
		return nil, err
	}
	return b, nil
}

// Restore makes the base again, if it is gone.
func (b *Base) Restore() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := Mkdir(b.Path, 0o711)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	lock, err := lockDir(b.Path)
	if err != nil {
		return err
	}
	b.lock.Close()
	b.lock = lock
	return nil
}

// MkdirAll makes dir and what is missing above it, so that others may pass through them, whatever
// the service's umask is.
func MkdirAll(dir string) error {
	err := Mkdir(dir, 0o711)
	if errors.Is(err, fs.ErrNotExist) {
		if err = MkdirAll(filepath.Dir(dir)); err == nil {
			err = Mkdir(dir, 0o711)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// Mkdir makes a directory of that mode, whatever the service's umask is.
func Mkdir(dir string, mode fs.FileMode) error {
	if err := os.Mkdir(dir, mode); err != nil {
		return err
	}
	return os.Chmod(dir, mode)
}

// Remove removes the base, of which sandboxes that could not be destroyed may be
// left.
func (b *Base) Remove() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.lock.Close()
	return b.removeTree(b.Path)
}

// sweepBases removes the bases whose services are gone. What cannot be removed now is
// left to the next.
func sweepBases(pattern string, remove func(dir string) error) {
	names, err := filepath.Glob(pattern)
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
