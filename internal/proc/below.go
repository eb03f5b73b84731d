//go:build linux && (amd64 || arm64)

package proc

import (
	"time"
)

// belowTime is how long KillBelow goes on.
const belowTime = 2 * time.Second

// KillBelow kills the descendants of a child of the calling process that does not run
// itself, so that it reaps none of them, and inherits what they leave. It returns when
// all have ended, or after a while.
func KillBelow(pid int) {
	parent := procRef{pid: pid, fd: -1}
	for begin := time.Now(); time.Since(begin) < belowTime; time.Sleep(passTime) {
		of, alive := listChildren(), false
		parent.each(of, maxDepth, func(t procRef) {
			if statOf(t.pid).state != 'Z' {
				alive = true
				t.kill(of, maxDepth)
			}
		})
		if !alive {
			return
		}
	}
}
