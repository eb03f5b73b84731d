//go:build linux && (amd64 || arm64)

package proc

import "syscall"

// Stopped is what a kill does while it has everything of the user stopped.
func (u *User) Stopped(f func()) { u.stopped(f) }

// EffectivelyAs is what makes things a user's where there is no setfsuid.
func EffectivelyAs(cred *syscall.Credential, f func()) { effectivelyAs(cred, f) }
