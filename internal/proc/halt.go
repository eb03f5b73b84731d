//go:build linux && (amd64 || arm64)

package proc

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Halt stops everything that runs as the user after a while, and again and again after
// the same, until end lets it go on. It is for whoever makes no progress then: where bombs
// have used up the memory, each of them takes what the kernel frees, and they wait for
// their turns in one row with the caller. It takes no memory itself, so it does not look at
// what runs: what had been stopped before goes on too. A nil User has nothing to stop.
func (u *User) Halt(after time.Duration) (end func()) {
	if u == nil {
		return func() {}
	}
	var mu sync.Mutex // guards what follows
	var halted, over bool
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(after, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			halted = true
			u.signal(unix.SIGSTOP)
			timer.Reset(after)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		timer.Stop()
		if halted {
			u.signal(unix.SIGCONT)
		}
	}
}
