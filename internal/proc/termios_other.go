//go:build unix && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package proc

import "golang.org/x/sys/unix"

const (
	getTermios = unix.TCGETS
	noChar     = 0 // _POSIX_VDISABLE
)
