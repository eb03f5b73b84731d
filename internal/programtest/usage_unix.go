//go:build unix

package programtest

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

// InUse returns how much memory the heap and the stacks take, in bytes.
func InUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// CPUTime returns the CPU time of this process.
func CPUTime(tb testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
