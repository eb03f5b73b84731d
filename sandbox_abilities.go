package sandbox

import (
	"errors"
	"fmt"

	"github.com/sandbox-go/sandbox/backend"
)

// hidden returns what is wrong with an instance that does not have what its backend
// promises, or nil. A decorator that embeds the interface backend.Instance hides what
// else the instance can do.
func hidden(info backend.Info, i backend.Instance) error {
	if _, ok := i.(backend.Filer); info.Files && !ok {
		return errHidden("Files", i, "backend.Filer")
	}
	if _, ok := i.(backend.Dialer); info.Ports && !ok {
		return errHidden("Ports", i, "backend.Dialer")
	}
	return nil
}

func errHidden(promise string, what any, ability string) error {
	return fmt.Errorf("%w: the backend's Info promises %s, but its %T is no %s: what decorates it must have those methods too, or not promise them",
		errors.ErrUnsupported, promise, what, ability)
}
