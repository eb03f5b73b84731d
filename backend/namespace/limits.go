//go:build linux && (amd64 || arm64)

package namespace

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent"
	"github.com/sandbox-go/sandbox/internal/cgroup"
)

// reservedSupervisors is for how many executions at the same time the limit of processes
// has room.
const reservedSupervisors = 16

// limits returns what the sandbox of a Config is held to: a negative field is no limit. An
// error says what cannot be.
func (b *Backend) limits(cfg *backend.Config) (backend.Limits, error) {
	asked := backend.Limits{
		Memory: cmp.Or(cfg.Limits.Memory, b.opts.Limits.Memory),
		CPUs:   cmp.Or(cfg.Limits.CPUs, b.opts.Limits.CPUs),
		PIDs:   cmp.Or(cfg.Limits.PIDs, b.opts.Limits.PIDs, defaultPIDs),
	}
	if asked.PIDs > 0 {
		asked.PIDs += agent.Reserve + reservedSupervisors*agent.SupervisorThreads
	}
	if b.groups == nil && (asked.Memory > 0 || asked.CPUs > 0) {
		return asked, fmt.Errorf("namespace: %w: memory and CPUs cannot be limited: %w", errors.ErrUnsupported, b.groupsErr)
	}
	if b.groups == nil {
		return asked, nil
	}
	if asked.CPUs > 0 && !b.groups.LimitsCPUs() {
		return asked, fmt.Errorf("namespace: %w: the service's control group cannot limit CPUs", errors.ErrUnsupported)
	}
	asked.Memory = cmp.Or(asked.Memory, defaultMemory)
	if b.groups.LimitsCPUs() {
		asked.CPUs = cmp.Or(asked.CPUs, defaultCPUs)
	}
	return asked, nil
}

// newGroup makes a sandbox's control group, where there are any; otherwise it returns nil.
func (b *Backend) newGroup(id string, l backend.Limits) (*cgroup.Group, error) {
	if b.groups == nil {
		return nil, nil
	}
	g, err := b.groups.New(id, l)
	if err != nil {
		return nil, &Error{Call: "make a control group", Err: err}
	}
	return g, nil
}
