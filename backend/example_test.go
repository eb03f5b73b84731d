package backend_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// A backend whose sandboxes have one program, echo. Timeouts, records, streams and
// limits are package sandbox's.
func Example() {
	ctx := context.Background()
	b := &echoBackend{}
	defer b.Close(ctx)
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)
	for _, argv := range [][]string{{"echo", "hi", "there"}, {"rm", "-rf", "/"}} {
		rec, err := sb.Run(ctx, sandbox.Command{Argv: argv})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %q %v\n", rec.Status, rec.Stdout, rec.Err)
	}
	_, err = sandbox.New(ctx, b, &sandbox.Options{Config: sandbox.Config{Image: "debian"}})
	fmt.Println(errors.Is(err, errors.ErrUnsupported))
	// Output:
	// completed "hi there\n" <nil>
	// failed "" rm: not found
	// true
}

// An echoBackend makes instances, which are gone when it is closed.
type echoBackend struct {
	mu     sync.Mutex // guards what follows
	closed bool
	gone   []chan struct{}
}

func (b *echoBackend) Info() backend.Info {
	return backend.Info{Name: "echo", Containment: backend.ContainmentSupervisor, DedicatedUser: true, DedicatedFiles: true, DedicatedNetwork: true}
}

func (b *echoBackend) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	if cfg.Image != "" || cfg.User != "" || cfg.Network != "" || len(cfg.Mounts) > 0 || cfg.Limits != (backend.Limits{}) {
		return nil, fmt.Errorf("echo: %w: there is nothing to set", errors.ErrUnsupported)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fmt.Errorf("echo: closed: %w", backend.ErrGone)
	}
	i := &echoInstance{gone: make(chan struct{})}
	b.gone = append(b.gone, i.gone)
	return i, ctx.Err()
}

func (b *echoBackend) Close(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, gone := range b.gone {
		close(gone)
	}
	b.closed, b.gone = true, nil
	return nil
}

type echoInstance struct {
	gone      chan struct{}
	destroyed atomic.Bool
}

func (i *echoInstance) Start(ctx context.Context, spec *backend.Spec) (backend.Process, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err() // nothing was started
	case i.destroyed.Load():
		return nil, backend.ErrGone
	case spec.Shell != "":
		return nil, &backend.StartError{Reason: backend.NotFound, Path: "sh"}
	case spec.Argv[0] != "echo":
		return nil, &backend.StartError{Reason: backend.NotFound, Path: spec.Argv[0]}
	}
	p := &echoProcess{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		fmt.Fprintln(spec.Stdout, strings.Join(spec.Argv[1:], " ")) // which may block
	}()
	return p, nil
}

func (i *echoInstance) Gone() <-chan struct{} { return i.gone }

func (i *echoInstance) Destroy(context.Context) error {
	i.destroyed.Store(true) // package sandbox has killed what ran
	return nil
}

// An echoProcess is over when its line has been written.
type echoProcess struct{ done chan struct{} }

func (p *echoProcess) Exited() <-chan struct{}     { return p.done }
func (p *echoProcess) OutputOver() <-chan struct{} { return p.done }

func (p *echoProcess) Exit() (backend.Exit, error) {
	<-p.done
	return backend.Exit{Code: 0}, nil
}

func (p *echoProcess) DiscardOutput() { <-p.done } // the caller releases a sink that blocks

func (p *echoProcess) Kill() error {
	<-p.done
	return nil // nothing is left
}

func (p *echoProcess) Signal(ctx context.Context, _ backend.Signal) error {
	select {
	case <-p.done:
		return os.ErrProcessDone
	default:
		return ctx.Err() // and ignores it
	}
}
