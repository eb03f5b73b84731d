//go:build linux && (amd64 || arm64)

package harden

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	mapped   = 256 << 10 // how much of each mapping is touched: all that is in use, and more
	headroom = 1 << 20   // what the runtime keeps free below its memory limit
)

// Memory has the process touch now the memory that it will need: n bytes more of Go's
// heap than it uses, and what the runtime has besides. Where bombs have used up a
// container's memory, a page that is touched for the first time waits for seconds, and
// everything with it. Garbage is collected when those n bytes are used up, and never only
// because time has passed, since the runtime gives memory back after that.
func Memory(n int) {
	debug.SetGCPercent(-1)
	touch(uintptr(n))
	limitMemory(uint64(n))
}

// touch touches the beginning of every private mapping that can be written to, and n bytes
// more of the heap's, which a kernel before 5.14 cannot do without a change to what is there,
// and locks the program, whose pages the kernel would free first, as far as RLIMIT_MEMLOCK
// lets it.
func touch(n uintptr) {
	maps, _ := os.ReadFile("/proc/self/maps")
	heap := uintptr(unsafe.Pointer(unsafe.SliceData(maps)))
	for line := range strings.Lines(string(maps)) {
		var begin, end, offset, inode uintptr
		var mode, device string
		fmt.Sscanf(line, "%x-%x %s %x %s %d", &begin, &end, &mode, &offset, &device, &inode)
		switch {
		case mode == "rw-p":
			size := uintptr(mapped)
			if begin <= heap && heap < end {
				size += n
			}
			unix.RawSyscall(unix.SYS_MADVISE, begin, min(end-begin, size), unix.MADV_POPULATE_WRITE)
		case inode != 0:
			unix.RawSyscall(unix.SYS_MLOCK, begin, end-begin, 0)
		}
	}
}

// limitMemory has garbage collected when there are n bytes of it, or half as many as are
// in use, and says so anew after each time. Before the first, all that there is is in use.
func limitMemory(n uint64) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
	}
	metrics.Read(samples)
	live, other := samples[0].Value.Uint64(), samples[1].Value.Uint64()
	for _, s := range samples[2:] {
		other -= s.Value.Uint64()
	}
	if live == 0 {
		live = samples[3].Value.Uint64()
	}
	debug.SetMemoryLimit(int64(other + live + max(n, live/2) + headroom))
	runtime.AddCleanup(new([64]byte), limitMemory, n)
}
