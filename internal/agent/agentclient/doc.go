// Package agentclient is the service's side of the agent.
//
// For a container: put the program that agent.Binary returns there, let the
// container's first process be agent.InitCommand, start agent.ServeCommand with
// stdin and stdout attached and no terminal, and [Dial] them.
//
// Beside the service: [NewLocal].
package agentclient

import "github.com/sandbox-go/sandbox/internal/agent/shared/peer"

// ErrEnded: the agent has ended, and has not done what it was asked for.
var ErrEnded = peer.ErrEnded
