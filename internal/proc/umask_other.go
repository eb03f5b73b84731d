//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package proc

// withUmask calls f with the process's own umask: a thread cannot have another here.
func withUmask(f func()) { f() }
