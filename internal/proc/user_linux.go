package proc

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// asUser calls f with the file system rights of cred, which are the calling
// thread's only. Nil is the caller's own rights. f must not start a goroutine.
func asUser(cred *syscall.Credential, f func()) {
	if cred == nil {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// They return the previous id, and cannot fail for ids that setuid takes.
	gid, _ := unix.SetfsgidRetGid(int(cred.Gid))
	uid, _ := unix.SetfsuidRetUid(int(cred.Uid))
	defer unix.Setfsgid(gid)
	defer unix.Setfsuid(uid)
	f()
}

// executable reports whether the thread's user may execute path, or enter it.
func executable(path string) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) == nil
}
