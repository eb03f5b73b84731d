//go:build linux && (amd64 || arm64)

package serve

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

// An ownGroup is the container's control group of one controller, as a directory and
// the version of the kernel's control groups that its files are of.
type ownGroup struct {
	dir     string
	version int
}

// findCgroup returns the container's group of a controller, or false where it is
// not to be seen. By the first version a controller has a directory of its own. By
// the second the container's group may or may not be the root of what it sees.
func findCgroup(controller string) (ownGroup, bool) {
	const root = "/sys/fs/cgroup"
	if dir := filepath.Join(root, controller); isMount(dir, unix.CGROUP_SUPER_MAGIC) {
		return ownGroup{dir, 1}, true
	}
	b, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(b)) {
		if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			if dir := filepath.Join(root, group); isMount(dir, unix.CGROUP2_SUPER_MAGIC) {
				return ownGroup{dir, 2}, true
			}
		}
	}
	return ownGroup{root, 2}, isMount(root, unix.CGROUP2_SUPER_MAGIC)
}

// isMount reports whether dir is in a file system of that type.
func isMount(dir string, magic int64) bool {
	var stat unix.Statfs_t
	return unix.Statfs(dir, &stat) == nil && int64(stat.Type) == magic
}

// limits returns what the kernel holds the container to. In gVisor the files of
// its own kernel say nothing of that: the engine's machine holds the sandbox.
func limits() *wire.Limits {
	if inGVisor() {
		return &wire.Limits{}
	}
	return &wire.Limits{
		Memory: limit("memory", "memory.limit_in_bytes", "memory.max"),
		CPUs:   cpuLimit(),
		PIDs:   limit("pids", "pids.max", "pids.max"),
	}
}

const (
	unseen    = 0
	unlimited = -1
)

// limit returns the number in a file of a controller, whose name depends on the
// version. A file that is missing where the controller's others are is one of a
// group that cannot be limited: the machine's first.
func limit(controller, name1, name2 string) int64 {
	fields := read(controller, name1, name2)
	if len(fields) == 0 {
		return unseen
	}
	// "max", and the first version's largest number of pages, are no limit.
	if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil && n < 1<<60 {
		return n
	}
	return unlimited
}

// cpuLimit returns the share of time that the CPU controller allows.
func cpuLimit() float64 {
	quota := limit("cpu", "cpu.cfs_quota_us", "cpu.max")
	if quota <= 0 {
		return float64(quota)
	}
	period := limit("cpu", "cpu.cfs_period_us", "")
	if fields := read("cpu", "", "cpu.max"); len(fields) == 2 {
		period, _ = strconv.ParseInt(fields[1], 10, 64)
	}
	if period <= 0 {
		return unseen
	}
	return float64(quota) / float64(period)
}

// read returns the words in a file of a controller, none where the controller is
// not to be seen, and "max" where only the file is missing.
func read(controller, name1, name2 string) []string {
	group, ok := findCgroup(controller)
	name := name1
	if group.version == 2 {
		name = name2
	}
	if !ok || name == "" {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(group.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return []string{"max"}
	}
	return strings.Fields(string(b))
}

// inGVisor reports whether the kernel is gVisor, by how its log begins. The log of
// another kernel is not for a container to read.
func inGVisor() bool {
	const readAll = 3 // SYSLOG_ACTION_READ_ALL
	log := make([]byte, 64<<10)
	n, err := unix.Klogctl(readAll, log)
	first, _, _ := bytes.Cut(log[:max(n, 0)], []byte("\n"))
	return err == nil && bytes.Contains(first, []byte("Starting gVisor"))
}
