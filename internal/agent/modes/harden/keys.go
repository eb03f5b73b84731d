//go:build linux && (amd64 || arm64)

package harden

import (
	"os"

	"golang.org/x/sys/unix"
)

// SessionKeyring gives what the calling thread starts next a session keyring that is new,
// empty and nobody else's. Otherwise a command would have the keys of the session that the
// service was started in. Where the call is missing or forbidden, it is to commands too.
func SessionKeyring() error {
	// Not KeyctlJoinSessionKeyring: that joins a keyring which others can join by its name.
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if err == unix.ENOSYS || err == unix.EPERM {
		return nil
	}
	return os.NewSyscallError("keyctl(KEYCTL_JOIN_SESSION_KEYRING)", err)
}
