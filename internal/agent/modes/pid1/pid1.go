//go:build linux && (amd64 || arm64)

// Package pid1 is the agent's mode that is a container's first process.
package pid1

import (
	"bytes"
	"os"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/agent/modes/harden"
)

// looks is how many times an absence is looked for before it has lasted too long,
// and longestLook how long at most from one look to the next.
const (
	looks       = 10
	longestLook = time.Minute
)

// Main reaps what is left to the container's first process, and passes signals
// on to all others. The arguments are a lifetime, and for how long the agents of
// services may be absent; 0 is for ever. It returns, which ends the container, at
// SIGTERM, and when either is over: the service that made the container may not be
// there any more.
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
	var limits [2]time.Duration // lifetime, absence
	for i := range min(len(limits), len(args)) {
		var err error
		if limits[i], err = time.ParseDuration(args[i]); err != nil {
			return err
		}
	}
	var over, look <-chan time.Time
	if limits[0] > 0 {
		over = time.After(limits[0])
	}
	if limits[1] > 0 {
		ticker := time.NewTicker(min(limits[1]/looks+1, longestLook))
		defer ticker.Stop()
		look = ticker.C
	}
	seen := time.Now()
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	reap()
	for {
		select {
		case <-over:
			return nil
		case <-look:
			switch {
			case served():
				seen = time.Now()
			case time.Since(seen) > limits[1]:
				return nil
			}
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

// served reports whether an agent that serves runs here. It is a process of root's besides
// this one, for no command can become root; where this one is not root, it is one without
// a parent here, for every command has one. When that cannot be seen, one does.
func served() bool {
	mark := []byte("\nUid:\t0\t")
	if os.Geteuid() != 0 {
		mark = []byte("\nPPid:\t0\n")
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		status, err := os.ReadFile("/proc/" + entry.Name() + "/status")
		if err == nil && bytes.Contains(status, mark) {
			return true
		}
	}
	return false
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
