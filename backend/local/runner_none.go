//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package local

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/sandbox-go/sandbox/backend"
)

func newRunner(string, bool) runner { return noRunner{} }

// A noRunner is for systems whose processes the package does not know how to
// hold.
type noRunner struct{}

func (noRunner) containment() backend.Containment { return backend.ContainmentProcessGroup }

func (noRunner) prepare() error {
	return fmt.Errorf("%w on %s", errors.ErrUnsupported, runtime.GOOS)
}

func (r noRunner) start(context.Context, *startRequest, *backend.Spec) (process, error) {
	return nil, r.prepare()
}

func (r noRunner) files(*instance, string) (backend.Filer, error) { return nil, r.prepare() }

func (noRunner) sweep(context.Context, []int64) (map[int64][]backend.Survivor, error) {
	return nil, nil
}

func (noRunner) close() {}
