//go:build linux && (amd64 || arm64)

package serve

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

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
	group, ok := findCgroup("memory")
	if !ok {
		return nil
	}
	name := "memory.oom_control"
	if group.version == 2 {
		name = "memory.events"
	}
	f, err := os.Open(filepath.Join(group.dir, name))
	if err != nil {
		return nil
	}
	return &oomCounter{f, int(f.Fd())}
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
