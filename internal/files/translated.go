package files

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/sandbox-go/sandbox/backend"
)

// Translated does r for a user whose names are others: resolve returns the directory in
// which a name begins and the name there, and open what reaches that directory. An
// error, and what FileStat finds, have the user's name.
func Translated(
	ctx context.Context, r *backend.FileRequest,
	resolve func(name string) (dir, inside string, err error),
	open func(dir string) (backend.Filer, error),
) error {
	inner := *r
	dir, inside, err := resolve(r.Name)
	if err != nil {
		return pathError(r, err)
	}
	inner.Name = inside
	if r.Op == backend.FileRename {
		toDir, to, err := resolve(r.To)
		if err == nil && toDir != dir {
			return pathError(r, otherFileSystem(r.To))
		}
		if err != nil {
			return pathError(r, about(r.To, err))
		}
		inner.To = to
	}
	if r.Op == backend.FileStat {
		inner.Found = func(i backend.FileInfo) bool {
			i.Path = r.Name
			return r.Found(i)
		}
	}
	f, err := open(dir)
	if err != nil {
		return pathError(r, err)
	}
	err = f.File(ctx, &inner)
	var p *fs.PathError
	switch {
	case !errors.As(err, &p):
	case r.Op == backend.FileRename && p.Path == inner.To:
		p.Path = r.To
	case strings.HasPrefix(p.Path, inside):
		p.Path = r.Name + strings.TrimPrefix(p.Path, inside)
	}
	return err
}
