//go:build linux && (amd64 || arm64)

package serve

import "github.com/sandbox-go/sandbox/internal/cgroup"

// newOOMCounter finds the count of the container's group, or returns nil.
func newOOMCounter() *cgroup.OOM {
	group, ok := findCgroup("memory")
	if !ok {
		return nil
	}
	count, err := cgroup.OpenOOM(group.dir, group.version)
	if err != nil {
		return nil
	}
	return count
}
