package docker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox/internal/agent"
	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
	"github.com/sandbox-go/sandbox/internal/agent/contained"
	"github.com/sandbox-go/sandbox/internal/workspace"
)

// errUnusable: the agent cannot make the image's directories what they must be.
var errUnusable = errors.New("docker: the image's directories are of no use")

// dialTime bounds one attempt to connect to an agent.
const dialTime = 30 * time.Second

// A place is an instance as package contained sees it.
type place instance

var _ contained.Container = (*place)(nil)

// Dial starts an agent in the container and connects to it.
func (p *place) Dial(ctx context.Context, fresh bool, opts agentclient.Options) (*contained.Connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTime, &Error{NoEngine, p.b.host, "see whether the engine hangs", nil})
	defer cancel()
	opts.HideOOM = !p.b.engine.tellsOOM()
	conn, err := p.dial(ctx, fresh, opts)
	return conn, unanswered(ctx, err)
}

func (p *place) dial(ctx context.Context, fresh bool, opts agentclient.Options) (*contained.Connection, error) {
	b := p.b
	var flags []agent.ServeFlag
	if fresh {
		flags = append(flags, agent.Fresh)
	}
	exec, err := b.api.ExecCreate(ctx, p.container, client.ExecCreateOptions{
		User: "0:0", WorkingDir: "/", Cmd: agent.ServeCommand(agentPath, workspace.Dir, p.User(), flags...),
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
	tryDirect := b.opts.Connection != ConnectEngine && strings.HasPrefix(b.host, "unix://")
	if tryDirect {
		opts.PID = func(ctx context.Context) (int, error) { return b.execPID(ctx, exec.ID) }
	}
	conn, err := agentclient.Dial(ctx, stream, opts)
	if err != nil {
		said := stream.stderrText()
		if strings.Contains(said, agent.Unusable) {
			err = fmt.Errorf("%w: %w", errUnusable, err)
		}
		return nil, fmt.Errorf("docker: connect to the agent in %.12s: %w%s", p.container, err, said)
	}
	why := conn.Direct()
	switch {
	case why != nil && b.opts.Connection == ConnectDirect:
		conn.Close()
		return nil, &Error{NoDirect, b.host, "run the service as root beside the engine, or change Options.Connection", why}
	case why != nil && tryDirect:
		b.logOnce(slog.LevelInfo, "the connections to agents go through the engine", "reason", why.Error())
	}
	b.direct.Store(why == nil)
	return &contained.Connection{Conn: conn, Env: p.env, Ending: func(ctx context.Context) string {
		return fmt.Sprintf("docker: the agent in %s %s", p.name, b.execEnding(ctx, exec.ID)+stream.stderrText())
	}}, nil
}

// pidTime is how long an engine may take to learn the process of an exec, whose output may
// come before.
const pidTime = time.Second

// execPID returns the number of an exec's process.
func (b *Backend) execPID(ctx context.Context, exec string) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pidTime, errors.New("the engine does not say which process the agent is"))
	defer cancel()
	for {
		found, err := b.api.ExecInspect(ctx, exec, client.ExecInspectOptions{})
		if err != nil || found.PID > 0 {
			return found.PID, err
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// execEnding says how an exec in a container that lives has ended, as far as that is
// known.
func (b *Backend) execEnding(ctx context.Context, exec string) string {
	found, err := b.api.ExecInspect(ctx, exec, client.ExecInspectOptions{})
	switch problem := problemOf(engineError(b.host, err)); {
	case problem != "":
		return "cannot be reached: " + problem
	case err != nil || found.Running:
		return "cannot be reached"
	}
	return ended(found.ExitCode, false)
}

// problemOf returns what those who run commands may know of an error: the rest is the
// service's.
func problemOf(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Problem.Error()
	}
	return ""
}

// Look sees what became of the container.
func (p *place) Look(ctx context.Context) bool { return (*instance)(p).check(ctx) }

// Paused says that the container is paused, if it is.
func (p *place) Paused() error {
	if i := (*instance)(p); i.isPaused() {
		return i.death("is paused")
	}
	return nil
}

// Brief says what those who run commands may know of an error.
func (*place) Brief(err error) string { return problemOf(err) }
