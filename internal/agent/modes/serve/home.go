//go:build linux && (amd64 || arm64)

package serve

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/agent/modes/harden"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

const tempDir = "/tmp"

// prepare makes home the user's own and gives up the right to do so. A user who
// does not exist is for each command to say.
func prepare(home, user string, fresh bool) error {
	who := wire.Start{User: user}
	known := resolve(&who) == nil && who.UID > 0
	var err error
	switch {
	case known && fresh:
		err = prepareFresh(home, int(who.UID), int(who.GID))
	case known:
		err = takeHome(home, int(who.UID), int(who.GID))
	}
	if err != nil {
		return err
	}
	return harden.Drop(unix.CAP_CHOWN)
}

// takeHome makes home the user's own if it is a directory still in root's hands. A
// service may have died before its agent did that. Links are not followed: a
// command may have made where they lead to.
func takeHome(home string, uid, gid int) error {
	var stat unix.Stat_t
	if unix.Lstat(home, &stat) != nil || stat.Uid != 0 || stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	if err := unix.Lchown(home, uid, gid); err != nil {
		return fmt.Errorf("chown %s: %w", home, err)
	}
	return nil
}

// prepareFresh makes home and the directory for temporary files writable, which the
// image may have as links, as somebody's, or as closed.
func prepareFresh(home string, uid, gid int) error {
	for _, place := range []struct {
		name string
		open func() error
	}{
		{tempDir, func() error { return unix.Chmod(tempDir, unix.S_ISVTX|0o777) }},
		{home, func() error {
			// Root has no right but that of an owner to change a mode.
			if err := unix.Chown(home, 0, gid); err != nil {
				return err
			}
			if err := unix.Chmod(home, 0o755); err != nil {
				return err
			}
			return unix.Chown(home, uid, gid)
		}},
	} {
		if err := writable(place.name, uid, gid); err == nil {
			continue
		}
		err := place.open()
		if err == nil {
			err = writable(place.name, uid, gid)
		}
		if err != nil {
			return fmt.Errorf("%s: %s is no directory in which uid %d may write: %w", wire.Unusable, place.name, uid, err)
		}
	}
	return nil
}

// writable returns nil when a user without capabilities may make files in dir, as
// far as its owner and mode tell.
func writable(dir string, uid, gid int) error {
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil {
		return os.NewSyscallError("stat", err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	rights := stat.Mode
	switch {
	case int(stat.Uid) == uid:
		rights >>= 6
	case int(stat.Gid) == gid:
		rights >>= 3
	}
	if rights&0o3 != 0o3 {
		return unix.EACCES
	}
	return nil
}
