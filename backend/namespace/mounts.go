//go:build linux && (amd64 || arm64)

package namespace

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandbox-go/sandbox/backend"
)

// mounts returns all mounts with the real paths of their sources, or what is wrong with one.
func mounts(lists ...[]backend.Mount) ([]backend.Mount, error) {
	var all []backend.Mount
	for _, m := range slices.Concat(lists...) {
		path, err := realPath(m.Source)
		if err == nil {
			err = checkTarget(m.Target)
		}
		if err != nil {
			return nil, &Error{Call: "mount " + m.Source + " at " + m.Target, Err: err}
		}
		m.Source, m.Target = path, filepath.Clean(m.Target)
		all = append(all, m)
	}
	return all, nil
}

func realPath(name string) (string, error) {
	if !filepath.IsAbs(name) {
		return "", errors.New("the path is not absolute")
	}
	return filepath.EvalSymlinks(name)
}

// kept are the places of the sandbox's own that nothing may be put over.
var kept = []string{"/", "/dev", "/home", "/home/user", "/proc", "/tmp", "/workspace"}

func checkTarget(target string) error {
	clean := filepath.Clean(target)
	switch {
	case !filepath.IsAbs(target):
		return errors.New("the target is not absolute")
	case slices.Contains(kept, clean), strings.HasPrefix(clean, "/proc/"), strings.HasPrefix(clean, "/dev/"):
		return errors.New("the place is the sandbox's own")
	}
	return nil
}
