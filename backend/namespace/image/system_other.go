//go:build !linux

package image

import (
	"errors"
	"fmt"
	"os"
)

// errLocked: somebody else holds a lock.
var errLocked = errors.New("locked")

// errSystem: there are no namespaces here that images could be for.
var errSystem = fmt.Errorf("images are unpacked on Linux only: %w", errors.ErrUnsupported)

func syncAll(string) error             { return errSystem }
func tryLock(string) (*os.File, error) { return nil, errSystem }
