package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox/internal/agent"
	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
	"github.com/sandbox-go/sandbox/internal/agent/contained"
	"github.com/sandbox-go/sandbox/internal/workspace"
)

const (
	// dialTime bounds one attempt to connect to an agent.
	dialTime = 30 * time.Second

	defaultPingEvery = 30 * time.Second
	defaultPingTime  = time.Minute
)

// errRefused: the agent was started and has refused to serve, and would again.
var errRefused = errors.New("kubernetes: the agent cannot serve")

// A place is an instance as package contained sees it.
type place struct {
	*instance
	commandUser string
}

var _ contained.Container = (*place)(nil)

// Dial starts an agent in the pod and connects to it.
func (p *place) Dial(ctx context.Context, fresh bool, opts agentclient.Options) (*contained.Connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTime, &Error{NoCluster, p.b.host, "see whether the API server or the kubelet hangs", nil})
	defer cancel()
	opts.HideOOM = !p.b.opts.SingleProcessOOMKill
	conn, err := p.dial(ctx, fresh, opts)
	return conn, unanswered(ctx, err)
}

func (p *place) dial(ctx context.Context, fresh bool, opts agentclient.Options) (*contained.Connection, error) {
	flags := []agent.ServeFlag{agent.TellEnvironment}
	if fresh {
		flags = append(flags, agent.Fresh)
	} else {
		// An agent before may be there still, if only because nobody has told it that its
		// connection is cut. Whoever has taken the pod over meanwhile must not lose his.
		if !p.look(ctx) {
			return nil, &Error{NoCluster, p.b.host, "see whether the API server runs", nil}
		}
		if cause := context.Cause(p.Alive()); cause != nil {
			return nil, cause
		}
		flags = append(flags, agent.Alone)
	}
	stream, err := p.b.exec(p.name, ContainerName, agent.ServeCommand(agentPath, workspace.Dir, p.User(), flags...))
	if err != nil {
		return nil, err
	}
	conn, err := agentclient.Dial(ctx, stream, opts)
	if err != nil {
		if cause := stream.cause(); cause != nil && ctx.Err() == nil {
			err = cause // and not that of a pipe
		}
		said := stream.stderrText()
		if strings.Contains(said, agent.Says) {
			err = fmt.Errorf("%w: %w", errRefused, err)
		}
		return nil, fmt.Errorf("kubernetes: connect to the agent in pod %s: %w%s", p.name, p.b.clusterError(err), said)
	}
	if conn.Protected() {
		p.b.protected.Store(true)
	} else {
		p.b.unprotected.Store(true)
	}
	go p.b.ping(conn)
	return &contained.Connection{
		Conn: conn,
		Env:  workspace.Environ(imageEnv(conn.Environ()), p.commandUser, p.b.opts.Env),
		Ending: func(context.Context) string {
			return fmt.Sprintf("kubernetes: the connection to the agent in pod %s has ended%s", p.name, stream.ending())
		},
	}, nil
}

// imageEnv returns what of the agent's environment is the image's and the template's, and
// not the cluster's.
func imageEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, "KUBERNETES_") })
}

// ping asks the agent whether it is there until the connection ends, and ends it when
// there is no answer: that of a node that is gone may stay open for ever.
func (b *Backend) ping(conn *agentclient.Conn) {
	tick := time.NewTicker(b.pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			ctx, cancel := context.WithTimeout(context.Background(), b.pingTime)
			err := conn.Ping(ctx)
			cancel()
			if err != nil {
				conn.Close()
				return
			}
		case <-conn.Done():
			return
		}
	}
}

// Look sees what became of the pod.
func (p *place) Look(ctx context.Context) bool { return p.look(ctx) }

// Paused returns nil: nothing pauses a pod.
func (*place) Paused() error { return nil }

// Brief says what those who run commands may know of an error.
func (*place) Brief(err error) string { return problemOf(err) }
