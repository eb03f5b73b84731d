//go:build linux && (amd64 || arm64)

package namespace

import (
	"path/filepath"
	"syscall"
)

// ChangeEntering is what New advises where a call has failed in new namespaces, and the
// machine has those settings.
func ChangeEntering(call string, errno syscall.Errno, settings map[string]string) string {
	return changeEntering(call, errno, func(path string) string { return settings[path] })
}

// ChangeCloning is what New advises where no namespaces are made.
func ChangeCloning(err error, settings map[string]string) string {
	return changeCloning(err, func(path string) string { return settings[path] })
}

// AgentPID returns the number of the first process of the sandbox of that id, or 0.
func AgentPID(b *Backend, id string) int {
	for _, i := range b.instances.All() {
		if filepath.Base(i.dir) == id {
			return i.agent.PID()
		}
	}
	return 0
}
