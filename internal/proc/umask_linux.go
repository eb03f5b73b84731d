package proc

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// umask is what commands start with.
const umask = 0o022

// withUmask calls f on a thread that has a umask of its own, as far as the kernel and a
// seccomp profile let it have one: to change the process's would change what others in
// it make meanwhile. f must not start a goroutine.
func withUmask(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // so that it ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			// This one would stay, and shows its umask as the process's in /proc.
			defer runtime.UnlockOSThread()
			withUmask(f)
			return
		}
		if unix.Unshare(unix.CLONE_FS) == nil {
			unix.Umask(umask)
		}
		f()
	}()
	<-done
}
