package docker

import "github.com/sandbox-go/sandbox/internal/agent"

const (
	agentDir  = "/.sandbox"         // where the agent's volume is mounted
	agentPath = agentDir + "/agent" // the agent's program in a container
)

// pidReserve is how many processes and threads a container may have beyond
// Limits.PIDs: what the agent needs for 16 executions at once. More of them share
// the limit with their commands. It is not more since commands can use it too.
const pidReserve = agent.Reserve + 16*agent.SupervisorThreads

// A program is the agent for one architecture, and the volume that holds it.
type program struct {
	arch   string // as Go names it
	hash   string // SHA-256 in hexadecimal
	volume string // empty until it is provided
	data   []byte // empty until it is installed
}

// agentFor returns the agent for the architecture of img.
func agentFor(img *image) (*program, error) {
	hash, err := agent.Hash(img.arch)
	if err != nil {
		return nil, &Error{BadImage, img.ref, "name an image for linux/amd64 or linux/arm64", err}
	}
	return &program{arch: img.arch, hash: hash}, nil
}

// current reports whether hash is of an agent of this version of the library.
func current(hash string) bool {
	for _, arch := range []string{"amd64", "arm64"} {
		if known, err := agent.Hash(arch); err == nil && known == hash {
			return true
		}
	}
	return false
}
