// Package contained is the service's side of a container that has an agent in it,
// whatever engine or cluster runs the container: the connection to the agent, which is
// made again when it is lost, and commands, files and ports over it.
package contained

import (
	"context"

	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
)

// A Container is a container as its engine knows it. Its methods may be called
// concurrently.
type Container interface {
	// Dial starts an agent in the container and connects to it, in one attempt, with
	// opts and what it knows of the container itself. Fresh says that there was no
	// connection yet, so that no command ever ran there.
	Dial(ctx context.Context, fresh bool, opts agentclient.Options) (*Connection, error)

	// Look sees what became of the container, and calls [Instance.Die] when it has
	// ended. It reports whether the engine answered.
	Look(ctx context.Context) bool

	// Paused says why the container does not run for now though it has not ended, or nil.
	Paused() error

	// Brief says in words what those who run commands may know of an error of Dial:
	// the rest is the service's. Empty is nothing.
	Brief(err error) string
}

// A Connection is one to an agent.
type Connection struct {
	*agentclient.Conn

	// Env is what every command gets before what its Spec adds.
	Env []string

	// Ending says how the agent of a container that lives has ended, as far as that is
	// known.
	Ending func(ctx context.Context) string
}
