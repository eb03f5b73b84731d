package proc

import (
	"os"
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
	gid, err := unix.SetfsgidRetGid(int(cred.Gid))
	if err != nil { // gVisor has neither
		effectivelyAs(cred, f)
		return
	}
	uid, _ := unix.SetfsuidRetUid(int(cred.Uid))
	defer unix.Setfsgid(gid)
	defer unix.Setfsuid(uid)
	f()
}

// effectivelyAs calls f with cred as the calling thread's effective ids, on which the
// file system rights depend where they are not ids of their own. The real and the saved
// ones stay, which are the way back and by which the user could signal the process. The
// system calls are raw ones: the wrappers change the whole process.
func effectivelyAs(cred *syscall.Credential, f func()) {
	uid, gid := os.Geteuid(), os.Getegid()
	setEffective(unix.SYS_SETRESGID, int(cred.Gid))
	setEffective(unix.SYS_SETRESUID, int(cred.Uid))
	defer setEffective(unix.SYS_SETRESGID, gid)
	defer setEffective(unix.SYS_SETRESUID, uid)
	f()
}

// setEffective sets an effective id of the calling thread, by setresuid or setresgid.
func setEffective(call uintptr, id int) {
	keep := -1
	if _, _, errno := unix.RawSyscall(call, uintptr(keep), uintptr(id), uintptr(keep)); errno != 0 {
		panic(os.NewSyscallError("setresuid", errno)) // the thread has the wrong rights
	}
}

// executable reports whether the thread's user may execute path, or enter it.
func executable(path string) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) == nil
}
