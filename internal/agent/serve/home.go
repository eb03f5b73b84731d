//go:build linux && (amd64 || arm64)

package serve

import (
	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/agent/harden"
	"github.com/sandbox-go/sandbox/internal/agent/wire"
)

// prepareHome makes home the user's own, if it is a directory still in root's
// hands, as a fresh volume is, and gives up the right to do so. A user who does
// not exist is for each command to say.
func prepareHome(home, user string) error {
	var stat unix.Stat_t
	who := wire.Start{User: user}
	if resolve(&who) == nil && who.UID > 0 && unix.Lstat(home, &stat) == nil &&
		stat.Uid == 0 && stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := unix.Lchown(home, int(who.UID), int(who.GID)); err != nil {
			return err
		}
	}
	return harden.Drop(unix.CAP_CHOWN)
}
