//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package proc

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
)

// ExitOf says how a process ended, from what wait4(2) tells.
func ExitOf(status unix.WaitStatus, usage *unix.Rusage) backend.Exit {
	exit := backend.Exit{Usage: &backend.Usage{
		UserTime:   time.Duration(usage.Utime.Nano()),
		SystemTime: time.Duration(usage.Stime.Nano()),
		MaxRSS:     int64(usage.Maxrss) * rssUnit(),
	}}
	if status.Signaled() {
		exit.Signal = linuxSignal(status.Signal())
	} else {
		exit.Code = status.ExitStatus()
	}
	return exit
}

// rssUnit is the unit of getrusage(2)'s ru_maxrss in bytes.
func rssUnit() int64 {
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return 1
	}
	return 1 << 10
}
