//go:build !linux || (!amd64 && !arm64)

package namespace

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/sandbox-go/sandbox/backend"
)

// New answers errors.ErrUnsupported here.
func New(*Options) (*Backend, error) {
	return nil, fmt.Errorf("namespace: %w on %s/%s", errors.ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}

// A Backend is what there is none of here.
type Backend struct{ backend.Backend }
