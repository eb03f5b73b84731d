package agentclient

import "github.com/sandbox-go/sandbox/backend"

// A Process is a command that an agent beside the service has started.
type Process interface {
	backend.Process

	// Empty is closed when nothing of the command is left, or nobody knows.
	Empty() <-chan struct{}
}
