package files

import (
	"io/fs"
	"os"
	"syscall"
)

// What access(2) is asked for.
const (
	executable = 1
	writable   = 2
	readable   = 4
)

// mayChange says why the entries of dir cannot be changed, or nil.
func mayChange(dir *os.File) error { return access(dir, ".", writable|executable) }

// mayRead says why the entry of dir, a file or a directory, cannot be read, or nil.
func mayRead(dir *os.File, entry string, info fs.FileInfo) error {
	if info.IsDir() {
		return access(dir, entry, readable|executable)
	}
	return access(dir, entry, readable)
}

func access(dir *os.File, entry string, mode uint32) error {
	if err := syscall.Faccessat(int(dir.Fd()), entry, mode, 0); err != nil {
		return err
	}
	return nil
}

// isMount reports whether info, an entry of dir, is on another file system.
func isMount(dir *os.File, info fs.FileInfo) bool {
	above, err := dir.Stat()
	if err != nil {
		return false
	}
	return above.Sys().(*syscall.Stat_t).Dev != info.Sys().(*syscall.Stat_t).Dev
}
