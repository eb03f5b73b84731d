//go:build unix

package host

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// lockDir opens and locks a directory of the service's own user. It fails when
// another process holds the lock; that it is held ends with the process.
func lockDir(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !OwnedBy(info, uint32(os.Geteuid())) {
		err = fmt.Errorf("%s belongs to another user", name)
	}
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// OwnedBy reports whether a file is that user's.
func OwnedBy(info fs.FileInfo, uid uint32) bool { return info.Sys().(*syscall.Stat_t).Uid == uid }
