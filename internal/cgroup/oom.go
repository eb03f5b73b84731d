//go:build linux

package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// An OOM is the kernel's count of the processes of a group that it has killed for memory.
// A nil one counts nothing.
type OOM struct {
	file *os.File // keeps fd open
	fd   int
}

// OpenOOM opens the count of a group's directory, of that version of control groups. It
// stays open: when memory has ended is no time to open files.
func OpenOOM(dir string, version int) (*OOM, error) {
	name := "memory.oom_control"
	if version == 2 {
		name = "memory.events"
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	return &OOM{f, int(f.Fd())}, nil
}

// Kills reads the count. Both files have a line "oom_kill N".
func (c *OOM) Kills() int {
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

// Close closes the count.
func (c *OOM) Close() {
	if c != nil {
		c.file.Close()
	}
}
