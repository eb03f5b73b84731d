package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/contained"
	"github.com/sandbox-go/sandbox/internal/workspace"
)

// An instance is one container with an agent in it.
type instance struct {
	*contained.Instance
	b         *Backend
	container string // its id
	name      string // of the container
	volume    string
	env       []string // what every command gets before its Spec's
	network   string   // the container's NetworkMode

	mu     sync.Mutex // guards what follows
	oom    bool       // the kernel killed something in the container for memory
	paused bool       // the engine has said so last
}

var (
	_ backend.Filer    = (*instance)(nil)
	_ backend.Dialer   = (*instance)(nil)
	_ backend.Listener = (*instance)(nil)
)

// newInstance returns the instance of a container. Fresh says that no command ever ran
// there.
func (b *Backend) newInstance(container, name, volume string, env []string, cfg *backend.Config, network string, fresh bool) *instance {
	i := &instance{
		b: b, container: container, name: name, volume: volume,
		env: workspace.Environ(env, cfg.User, b.opts.Env), network: network,
	}
	i.Instance = contained.New(contained.Options{
		Container: (*place)(i), User: cfg.User, Egress: cfg.Egress != nil, Fresh: fresh, Background: &b.done,
	})
	return i
}

// Dial connects to a port through the agent, so a network is not needed.
func (i *instance) Dial(ctx context.Context, port int) (net.Conn, error) {
	if !ownNetwork(i.network) {
		return nil, fmt.Errorf("docker: %w: with network %q it cannot be told whose a port is", errors.ErrUnsupported, i.network)
	}
	return i.Instance.Dial(ctx, port)
}

// ownNetwork reports whether nobody else listens on a network's loopback address.
func ownNetwork(mode string) bool {
	return mode != "host" && !strings.HasPrefix(mode, "container:")
}

// Destroy removes the container with everything that runs in it, and its volume.
func (i *instance) Destroy(ctx context.Context) error {
	i.End(errDestroyed)
	if err := i.b.remove(ctx, i.container, i.volume); err != nil {
		return fmt.Errorf("docker: remove %s: %w", i.name, err)
	}
	i.b.forget(i)
	return nil
}

var errDestroyed = errors.New("docker: the sandbox was destroyed")
