package backendtest

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// usage is what this process has of what can leak. Descriptors are counted where
// there is a Linux /proc.
type usage struct {
	goroutines  int
	descriptors int
	ofHelper    int // descriptors of the child or grandchild that has the most
	heap        int64
}

// measure counts what is in use.
func measure() usage {
	u := usage{
		goroutines:  runtime.NumGoroutine(),
		descriptors: descriptors("self"),
		heap:        heap(),
	}
	for _, pid := range descendants(strconv.Itoa(os.Getpid())) {
		u.ofHelper = max(u.ofHelper, descriptors(pid))
	}
	return u
}

// flat checks that no more is in use than before, but for a few of each that pools
// and the runtime keep. What is about to end is waited for.
func (s *subject) flat(before usage) {
	s.Helper()
	const few, bytes = 8, 8 << 20
	var now usage
	for range 40 {
		now = measure()
		if now.goroutines <= before.goroutines+few && now.descriptors <= before.descriptors+few &&
			now.ofHelper <= before.ofHelper+few && now.heap <= before.heap+bytes {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.Errorf("in use is %+v, want no more than before: %+v", now, before)
}

// heap returns how many bytes of the heap are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// descriptors returns how many descriptors a process has, as far as it may be
// known.
func descriptors(pid string) int {
	fds, _ := os.ReadDir("/proc/" + pid + "/fd")
	return len(fds)
}

// descendants returns the processes below one.
func descendants(pid string) []string {
	children := make(map[string][]string)
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, _ := os.ReadFile(file)
		// What follows the name, which may contain anything, is state and parent.
		after := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(after) > 1 {
			children[after[1]] = append(children[after[1]], filepath.Base(filepath.Dir(file)))
		}
	}
	all := []string{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all[1:]
}
