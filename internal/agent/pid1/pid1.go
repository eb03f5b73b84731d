//go:build linux && (amd64 || arm64)

// Package pid1 is the agent's mode that is a container's first process.
package pid1

import (
	"os"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Main reaps what is left to the container's first process, and passes signals
// on to all others. It returns, which ends the container, after SIGTERM or at the
// deadline that the arguments may hold, in seconds since 1970: the service that
// made the container may not be there any more.
func Main(args []string) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	var deadline <-chan time.Time
	if len(args) > 0 {
		seconds, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return err
		}
		deadline = time.After(time.Until(time.Unix(seconds, 0)))
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	reap()
	for {
		select {
		case <-deadline:
			return nil
		case s := <-signals:
			switch s {
			case unix.SIGCHLD:
				reap()
			case unix.SIGURG: // the runtime's own, to preempt goroutines
			default:
				unix.Kill(-1, s.(unix.Signal))
				if s == unix.SIGTERM {
					return nil
				}
			}
		}
	}
}

// reap collects all that has ended.
func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil)
		if pid <= 0 && err != unix.EINTR {
			return
		}
	}
}
