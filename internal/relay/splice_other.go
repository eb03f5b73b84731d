//go:build !linux

package relay

import (
	"errors"
	"syscall"
)

// pipes are there on Linux only.
var pipes noPipes

type noPipes struct{}

func (noPipes) enter() (leave func()) { return func() {} }

var errNoPipe = errors.ErrUnsupported

func splice(_, _ syscall.RawConn, _ func(int) error) (int, error) { return 0, errNoPipe }
