package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent"
	"github.com/sandbox-go/sandbox/internal/files"
)

// A Starter starts a command by the rules of [backend.Instance], whose Spec.Dir is
// absolute.
type Starter func(context.Context, *backend.Spec) (backend.Process, error)

// Start starts a command, in the start directory where it names none. When its user has
// closed that to itself, it is opened again.
func Start(ctx context.Context, start Starter, spec *backend.Spec) (backend.Process, error) {
	s := *spec
	s.Dir = absolute(spec.Dir)
	p, err := startFirst(ctx, start, &s)
	if spec.Dir == "" && errors.Is(err, backend.BadDirectory) {
		p, err = startInOpen(ctx, start, &s)
	}
	return p, err
}

// startFirst starts a command, and takes nothing of its input when that fails, so
// that it can be tried again.
func startFirst(ctx context.Context, start Starter, s *backend.Spec) (backend.Process, error) {
	if s.Stdin == nil {
		return start(ctx, s)
	}
	g := &gate{Reader: s.Stdin, over: make(chan struct{})}
	first := *s
	first.Stdin = g
	p, err := start(ctx, &first)
	g.refused = err != nil
	close(g.over)
	return p, err
}

// A gate is an input that is read once the start is over, and is empty when the
// start was refused.
type gate struct {
	io.Reader
	over    chan struct{}
	refused bool // valid once over is closed
}

func (g *gate) Read(p []byte) (int, error) {
	<-g.over
	if g.refused {
		return 0, io.EOF
	}
	return g.Reader.Read(p)
}

// startInOpen starts a command in the start directory, which its user has closed to
// itself, after it has been opened again. That it cannot be is no fault of who named
// no directory.
func startInOpen(ctx context.Context, start Starter, s *backend.Spec) (backend.Process, error) {
	opener := files.NewClient(func(ctx context.Context, spec *backend.Spec) (backend.Process, error) {
		spec.Dir, spec.User, spec.Env = "/", s.User, s.Env
		return start(ctx, spec)
	}, agent.FilesCommand())
	defer opener.Close()
	if err := opener.File(ctx, &backend.FileRequest{Op: backend.FileChmod, Name: Dir, Mode: 0o700}); err != nil {
		return nil, closedStart(ctx, err)
	}
	p, err := start(ctx, s)
	if errors.Is(err, backend.BadDirectory) {
		err = closedStart(ctx, err)
	}
	return p, err
}

// closedStart is the error of a command that was not started, since the start
// directory could not be opened.
func closedStart(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &backend.StartError{
		Reason: backend.CannotStart,
		Detail: fmt.Sprintf("the start directory is closed to the commands' user: %v", err),
	}
}

// absolute returns dir as an absolute one. It is not cleaned: what ".." leads
// to is for the kernel to say.
func absolute(dir string) string {
	switch {
	case dir == "":
		return Dir
	case filepath.IsAbs(dir):
		return dir
	default:
		return Dir + "/" + dir
	}
}
