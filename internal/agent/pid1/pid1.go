//go:build linux && (amd64 || arm64)

// Package pid1 is the agent's mode that is a container's first process.
package pid1

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/agent/harden"
)

// Main reaps what is left to the container's first process, and passes signals
// on to all others. It returns, which ends the container, at SIGTERM, or after the
// lifetime that the arguments may hold: the service that made the container may
// not be there any more.
//
// SIGTERM is not passed on. A command that it ended would seem to have ended by
// itself, when it was the sandbox that ended.
func Main(args []string) error {
	if err := harden.NotDumpable(); err != nil {
		return err
	}
	if err := harden.Drop(unix.CAP_CHOWN); err != nil {
		return err
	}
	var over <-chan time.Time
	if len(args) > 0 {
		lifetime, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		over = time.After(lifetime)
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	reap()
	for {
		select {
		case <-over:
			return nil
		case s := <-signals:
			switch s {
			case unix.SIGTERM:
				return nil
			case unix.SIGCHLD:
				reap()
			case unix.SIGURG: // the runtime's own, to preempt goroutines
			default:
				unix.Kill(-1, s.(unix.Signal))
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
