package local

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/cgroup"
	"github.com/sandbox-go/sandbox/internal/host"
)

const defaultPIDs = 512

// errOwnUser: what is of the service's user may change what limits it.
var errOwnUser = errors.New("the service does not run as root")

// newGroups has the sandboxes be limited, where that is possible.
func (b *Backend) newGroups() error {
	b.groupsErr = errOwnUser
	if b.users != nil {
		b.groups, b.groupsErr = cgroup.NewParent(filepath.Base(b.base.Path))
	}
	_, err := b.limits(&backend.Config{})
	return err
}

// removeStale removes what a service that has died has left.
func removeStale(dir string) error {
	return errors.Join(host.Remove(dir), cgroup.RemoveStale(filepath.Base(dir)))
}

// limits returns what the sandbox of a Config is held to: a field that is not positive is no
// limit. An error says what cannot be.
func (b *Backend) limits(cfg *backend.Config) (backend.Limits, error) {
	asked := backend.Limits{
		Memory: cmp.Or(cfg.Limits.Memory, b.opts.Limits.Memory),
		CPUs:   cmp.Or(cfg.Limits.CPUs, b.opts.Limits.CPUs),
		PIDs:   cmp.Or(cfg.Limits.PIDs, b.opts.Limits.PIDs),
	}
	switch {
	case b.groups == nil && (asked.Memory > 0 || asked.CPUs > 0 || asked.PIDs > 0):
		return asked, fmt.Errorf("local: %w: a local sandbox cannot have limits: %w", errors.ErrUnsupported, b.groupsErr)
	case b.groups != nil && asked.CPUs > 0 && !b.groups.LimitsCPUs():
		return asked, fmt.Errorf("local: %w: the service's control group cannot limit CPUs", errors.ErrUnsupported)
	}
	asked.PIDs = cmp.Or(asked.PIDs, defaultPIDs)
	asked.Memory = cmp.Or(asked.Memory, machineMemory()/2)
	return asked, nil
}

// newGroup makes a sandbox's control group, or returns nil where nothing is limited.
func (b *Backend) newGroup(id string, l backend.Limits) (*cgroup.Group, error) {
	if b.groups == nil || l.Memory <= 0 && l.CPUs <= 0 && l.PIDs <= 0 {
		return nil, nil
	}
	g, err := b.groups.New(id, l)
	if err != nil {
		return nil, fmt.Errorf("make a control group: %w", err)
	}
	return g, nil
}

// limited says of what Info tells what is limited and what is not.
func (b *Backend) limited() []string {
	if b.groups == nil {
		return []string{fmt.Sprintf("Nothing limits what commands use: %v.", b.groupsErr)}
	}
	caveats := []string{"Nothing limits what a sandbox writes to files."}
	if b.opts.Limits.CPUs <= 0 {
		caveats = append(caveats, "A sandbox may use all processors, unless its limits say otherwise.")
	}
	return caveats
}
