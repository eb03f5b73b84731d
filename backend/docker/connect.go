package docker

import (
	"context"
	"fmt"

	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox/internal/agent"
)

// dialAgent starts an agent in the container and connects to it: the streams of
// one exec are the connection.
func (b *Backend) dialAgent(ctx context.Context, container, user string) (*agent.Conn, error) {
	exec, err := b.api.ExecCreate(ctx, container, client.ExecCreateOptions{
		User: "0:0", WorkingDir: "/", Cmd: agent.ServeCommand(agentPath, workspace, user),
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
	conn, err := agent.Dial(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("docker: connect to the agent in %.12s: %w%s", container, err, stream.complaint())
	}
	return conn, nil
}
