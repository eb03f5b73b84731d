package pump

import "golang.org/x/sys/unix"

// fionread asks how many bytes are in a pipe.
const fionread = unix.TIOCINQ

// busyPipe is the size of a pipe that has been seen full.
const busyPipe = 256 << 10

// enlarge makes a pipe larger. What an unprivileged user may have of that is
// limited, and without it things only go slower.
func enlarge(fd int) { unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, busyPipe) }
