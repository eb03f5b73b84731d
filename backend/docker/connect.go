package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox/internal/agent"
	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
	"github.com/sandbox-go/sandbox/internal/workspace"
)

// errUnusable: the agent cannot make the image's directories what they must be.
var errUnusable = errors.New("docker: the image's directories are of no use")

// pausePoll is how often a paused container is looked at.
const pausePoll = 100 * time.Millisecond

// dialTime bounds one attempt to connect to an agent.
const dialTime = 30 * time.Second

// A connection is one to an agent: the streams of an exec.
type connection struct {
	*agentclient.Conn
	exec   string // its id
	stream *execStream
}

// dialAgent starts an agent in the container and connects to it. A container
// that is paused is waited for; one that ends, or an engine that hangs, is not.
func (i *instance) dialAgent(ctx context.Context, opts agentclient.Options) (*connection, error) {
	i.mu.Lock()
	fresh := i.fresh
	i.mu.Unlock()
	for {
		conn, err := i.dialOnce(ctx, fresh, opts)
		if err == nil || ctx.Err() != nil || !i.check(ctx) || !i.isPaused() {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pausePoll):
		}
	}
}

// dialOnce makes one attempt.
func (i *instance) dialOnce(ctx context.Context, fresh bool, opts agentclient.Options) (*connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTime, &Error{NoEngine, i.b.host, "see whether the engine hangs", nil})
	defer cancel()
	defer context.AfterFunc(i.alive, cancel)()
	conn, err := i.b.dialAgent(ctx, i.container, i.user, fresh, opts)
	return conn, unanswered(ctx, err)
}

func (b *Backend) dialAgent(ctx context.Context, container, user string, fresh bool, opts agentclient.Options) (*connection, error) {
	exec, err := b.api.ExecCreate(ctx, container, client.ExecCreateOptions{
		User: "0:0", WorkingDir: "/", Cmd: agent.ServeCommand(agentPath, workspace.Dir, user, fresh),
		AttachStdin: true, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return nil, engineError(b.host, err)
	}
	attached, err := b.api.ExecAttach(ctx, exec.ID, client.ExecAttachOptions{})
	if err != nil {
		return nil, engineError(b.host, err)
	}
	stream := newExecStream(attached)
	conn, err := agentclient.Dial(ctx, stream, opts)
	if err != nil {
		said := stream.stderrText()
		if strings.Contains(said, agent.Unusable) {
			err = fmt.Errorf("%w: %w", errUnusable, err)
		}
		return nil, fmt.Errorf("docker: connect to the agent in %.12s: %w%s", container, err, said)
	}
	return &connection{conn, exec.ID, stream}, nil
}
