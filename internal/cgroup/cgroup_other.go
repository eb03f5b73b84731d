//go:build !linux

package cgroup

import (
	"errors"
	"runtime"
	"syscall"

	"github.com/sandbox-go/sandbox/backend"
)

// A Parent is what there is none of here.
type Parent struct{}

// A Group is what there is none of here.
type Group struct{}

// NewParent fails here.
func NewParent(string) (*Parent, error) {
	return nil, errors.New("there are no control groups on " + runtime.GOOS)
}

func (*Parent) LimitsCPUs() bool                           { return false }
func (*Parent) New(string, backend.Limits) (*Group, error) { return nil, errors.ErrUnsupported }
func (*Parent) Remove() error                              { return nil }

func (*Group) Place() Place  { return Place{} }
func (*Group) OOMKills() int { return 0 }
func (*Group) Remove() error { return nil }

// RemoveStale does nothing here.
func RemoveStale(string) error { return nil }

// Start calls start.
func (Place) Start(_ *syscall.SysProcAttr, start func() error) error { return start() }

// An Entrance is what there is none of here.
type Entrance struct{}

// Start calls start.
func (*Entrance) Start(_ Place, _ *syscall.SysProcAttr, start func() error) error { return start() }

// Close does nothing here.
func (*Entrance) Close() {}
