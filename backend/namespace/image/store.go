package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox/internal/host"
)

// A store is the directory of unpacked images.
//
//	ID          an image's files
//	ID.lock     locked by who makes ID, or removes it
//	ID.part     what is being unpacked, or removed
type store struct {
	dir     string
	maxSize int64
}

func newStore(opts *Options) (*store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	s := &store{dir: o.Dir, maxSize: cmp.Or(o.MaxSize, defaultMaxSize)}
	var err error
	if s.dir == "" {
		s.dir, err = defaultDir()
	}
	if err == nil {
		s.dir, err = filepath.Abs(s.dir)
	}
	if err == nil {
		err = s.make()
	}
	if err != nil {
		return nil, fmt.Errorf("image: Options.Dir: %w", err)
	}
	s.sweep()
	return s, nil
}

func defaultDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/sandbox/images", nil
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "sandbox", "images"), err
}

// make makes the directory, or checks that nobody else can put images into it.
func (s *store) make() error {
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	if err := host.MkdirAll(filepath.Dir(s.dir)); err != nil {
		return err
	}
	err := host.Mkdir(s.dir, mode)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if s.dir, err = filepath.EvalSymlinks(s.dir); err != nil {
		return err
	}
	me := uint32(os.Geteuid())
	info, err := os.Lstat(s.dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || !host.OwnedBy(info, me) || info.Mode()&0o022 != 0 {
		return fmt.Errorf("%s is not a directory that only you may write to", s.dir)
	}
	if me != 0 && info.Mode()&0o077 != 0 { // others may write to the files in it
		if err := os.Chmod(s.dir, mode); err != nil {
			return err
		}
	}
	for dir := s.dir; dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		shared := info.Mode()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0
		if shared || !host.OwnedBy(info, me) && !host.OwnedBy(info, 0) {
			return fmt.Errorf("%s is not a directory that only you can replace: others may write to %s", s.dir, dir)
		}
	}
	return nil
}

const part = ".part"

// sweep removes what others have left who were killed.
func (s *store) sweep() {
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), part)
		if !ok || !digest.MatchString(id) {
			continue
		}
		if f, err := tryLock(filepath.Join(s.dir, id+".lock")); err == nil {
			os.RemoveAll(filepath.Join(s.dir, e.Name()))
			f.Close()
		}
	}
}

// add returns the directory of an image, which fill fills, unless it is there. It is there
// as a whole or not at all, whatever happens to this process or to the machine.
func (s *store) add(ctx context.Context, id string, fill func(dir string) error) (string, error) {
	root := filepath.Join(s.dir, id)
	if _, err := os.Lstat(root); err == nil {
		return root, nil
	}
	held, err := lock(ctx, root+".lock")
	if err != nil {
		return "", err
	}
	defer held.Close()
	if _, err := os.Lstat(root); err == nil { // somebody else has been quicker
		return root, nil
	}
	dir := root + part
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	err = host.Mkdir(dir, 0o755)
	if err == nil {
		err = fill(dir)
	}
	if err == nil {
		err = syncAll(dir)
	}
	if err == nil {
		err = os.Rename(dir, root)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return root, syncAll(s.dir)
}

// Remove removes an unpacked image. No sandbox may use it.
func (i *Image) Remove() error {
	held, err := lock(context.Background(), i.Root+".lock")
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	defer held.Close()
	err = os.RemoveAll(i.Root + part)
	if err == nil {
		if err = os.Rename(i.Root, i.Root+part); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if err == nil {
		err = os.RemoveAll(i.Root + part)
	}
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return nil
}

// lock opens and locks a file, when nobody else holds it.
func lock(ctx context.Context, name string) (*os.File, error) {
	for {
		f, err := tryLock(name)
		if !errors.Is(err, errLocked) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
