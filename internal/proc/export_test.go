//go:build linux && (amd64 || arm64)

package proc

// Stopped is what a kill does while it has everything of the user stopped.
func (u *User) Stopped(f func()) { u.stopped(f) }
