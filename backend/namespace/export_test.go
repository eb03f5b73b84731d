//go:build linux && (amd64 || arm64)

package namespace

import "path/filepath"

// AgentPID returns the number of the first process of the sandbox of that id, or 0.
func AgentPID(b *Backend, id string) int {
	for _, i := range b.instances.All() {
		if filepath.Base(i.dir) == id {
			return i.agent.PID()
		}
	}
	return 0
}
