//go:build unix

package proc

import (
	"os"
	"os/signal"
	"syscall"
)

// ignored are the signals that this process was started to ignore, as nohup has it
// ignore SIGHUP. The runtime leaves these alone, and commands would inherit that; a
// shell cannot undo it.
var ignored = func() (all []os.Signal) {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}()

// withDefaultSignals calls start, which forks, while the runtime handles all signals:
// what it handles has the default action in a child.
func withDefaultSignals(start func()) {
	if len(ignored) > 0 {
		nobody := make(chan os.Signal, 1)
		signal.Notify(nobody, ignored...)
		defer signal.Stop(nobody) // ignores them again
	}
	start()
}
