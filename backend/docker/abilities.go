package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent"
	"github.com/sandbox-go/sandbox/internal/files"
)

var (
	_ backend.Filer    = (*instance)(nil)
	_ backend.Dialer   = (*instance)(nil)
	_ backend.Listener = (*instance)(nil)
)

// File works on the container's files, by a process of its user.
func (i *instance) File(ctx context.Context, r *backend.FileRequest) error {
	return (&files.Client{Start: i.Start, Program: agent.FilesCommand()}).File(ctx, r)
}

// Dial connects to a port through the agent, so a network is not needed.
func (i *instance) Dial(ctx context.Context, port int) (net.Conn, error) {
	if !ownNetwork(i.network) {
		return nil, fmt.Errorf("docker: %w: with network %q it cannot be told whose a port is", errors.ErrUnsupported, i.network)
	}
	l, err := i.connect(ctx)
	if err != nil {
		return nil, err
	}
	return l.Conn.Dial(ctx, port)
}

// Listen returns the listener of a sandbox with Config.Egress. The agent listens before
// the first command starts.
func (i *instance) Listen(ctx context.Context) (net.Listener, error) {
	if i.listener == nil {
		return nil, fmt.Errorf("docker: %w: the sandbox was created without Config.Egress", errors.ErrUnsupported)
	}
	if _, err := i.connect(ctx); err != nil {
		return nil, err
	}
	return i.listener, nil
}

// ownNetwork reports whether nobody else listens on a network's loopback address.
func ownNetwork(mode string) bool {
	return mode != "host" && !strings.HasPrefix(mode, "container:")
}
