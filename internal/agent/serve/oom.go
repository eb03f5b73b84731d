//go:build linux && (amd64 || arm64)

package serve

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// An oomCounter is the kernel's count of the processes of the container that it
// has killed for memory. A nil one counts nothing.
type oomCounter struct {
	file *os.File // keeps fd open
	fd   int
}

// newOOMCounter finds the count, which stays open: when memory has ended is no
// time to open files.
func newOOMCounter() *oomCounter {
	for _, path := range oomFiles() {
		if f, err := os.Open(path); err == nil {
			return &oomCounter{f, int(f.Fd())}
		}
	}
	return nil
}

// oomFiles returns where the count may be: by the first version of control groups
// a file of the container's memory controller, by the second one of the
// container's group, which may or may not be the root of what it sees.
func oomFiles() []string {
	files := []string{"/sys/fs/cgroup/memory/memory.oom_control"}
	b, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(b)) {
		if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			files = append(files, "/sys/fs/cgroup"+group+"/memory.events")
		}
	}
	return append(files, "/sys/fs/cgroup/memory.events")
}

// kills reads the count. Both files have a line "oom_kill N".
func (c *oomCounter) kills() int {
	if c == nil {
		return 0
	}
	var buf [512]byte
	n, _ := unix.Pread(c.fd, buf[:], 0)
	for line := range bytes.Lines(buf[:max(n, 0)]) {
		if count, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			kills, _ := strconv.Atoi(string(bytes.TrimSpace(count)))
			return kills
		}
	}
	return 0
}
