// Package agent is the service's side of sandbox-agent, a small static program
// that starts commands where a sandbox is: in a container, or beside the service.
//
// For a container: put the program that [Binary] returns there, let the
// container's first process be [InitCommand], start [ServeCommand] with stdin and
// stdout attached and no terminal, and [Dial] them.
//
// Beside the service: [NewLocal].
package agent

import (
	"time"

	"github.com/sandbox-go/sandbox/internal/agent/peer"
	"github.com/sandbox-go/sandbox/internal/agent/wire"
)

// ErrEnded: the agent has ended, and has not done what it was asked for.
var ErrEnded = peer.ErrEnded

// Reserve is how many processes and threads the agent itself needs of a
// container's limit, besides one supervisor's worth of them, SupervisorThreads,
// for each execution that runs at the same time.
const (
	Reserve           = 64
	SupervisorThreads = 10
)

// ServeCommand returns the command line of the agent, which is at path in the
// container, that serves executions on its stdin and stdout. It must run as root
// with the capabilities SETUID, SETGID, SETPCAP and KILL, and CHOWN, with which it
// makes the directory home the user's own before it gives it up. In a container
// that is fresh, where no command ever ran, it may follow the image's links, and
// lets the user write to home and /tmp whatever the image says of them. Where it
// cannot, it says [Unusable] on stderr and ends.
func ServeCommand(path, home, user string, fresh bool) []string {
	argv := []string{path, "serve", home, user}
	if fresh {
		argv = append(argv, "fresh")
	}
	return argv
}

// Unusable begins what the agent says of an image in which commands could not
// write where they must.
const Unusable = wire.Unusable

// FilesCommand returns the beginning of the command line of a files.Client, whose
// process is the agent's program wherever that lies: a command's first process is
// a copy of its supervisor until it executes something else.
func FilesCommand() []string { return []string{"/proc/self/exe", "files"} }

// InitCommand returns the command line of a container's first process. It reaps,
// forwards signals, and ends, and the container with it, after lifetime, or when no
// ServeCommand has run in it for the time abandoned. 0 is never.
func InitCommand(path string, lifetime, abandoned time.Duration) []string {
	return []string{path, "init", max(lifetime, 0).String(), max(abandoned, 0).String()}
}
