// Package agent is sandbox-agent: a small static program that starts commands where a
// sandbox is, in a container or beside the service, and what a backend must know to
// put it there. This package has the program itself and its command lines.
//
// Each part runs in one kind of process, which its folder tells:
//
//	package           runs in                              talks to
//	agentclient       the service                          serve; beside the service also supervise
//	contained         the service                          serve, by way of agentclient
//	modes/pid1        a container's first process          nobody
//	modes/namespace   the first process of new namespaces, agentclient, supervise
//	                  which then is serve
//	modes/serve       the agent of a container, or that    agentclient, supervise
//	                  beside the service
//	modes/supervise   a supervisor: one per command        serve, or beside the service agentclient
//	modes/forkserver  what starts the supervisors of a     serve
//	                  serve that is not root, where the
//	                  kernel has signal scopes
//	modes/harden      all of these                         nobody
//	shared/wire       all of them: the messages            -
//	shared/mux        agentclient and serve: many streams  -
//	                  of one connection
//	shared/peer       whoever asks about a command         supervise, or serve
//	shared/pool       whoever owns supervisors: serve in   supervise
//	                  a container, else agentclient
//	cmd/sandbox-agent the program, which is all modes      -
//	build             go generate, which builds it         -
//
// A command's file operations are a mode too, of internal/files.
package agent

import (
	"time"

	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
)

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
// that is [Fresh] it may follow the image's links, and
// lets the user write to home and /tmp whatever the image says of them. Where it
// cannot, it says [Unusable] on stderr and ends. It may run as an ordinary user too: then
// commands run as the same one, and home must be the user's own already; where the kernel
// can keep them from signalling the agent, it does.
func ServeCommand(path, home, user string, flags ...ServeFlag) []string {
	argv := []string{path, "serve", home, user}
	for _, f := range flags {
		argv = append(argv, string(f))
	}
	return argv
}

// A ServeFlag changes what an agent does before it serves.
type ServeFlag = wire.ServeFlag

const (
	Fresh           = wire.Fresh           // no command ever ran in the container
	TellEnvironment = wire.TellEnvironment // the agent tells its own environment
	Alone           = wire.Alone           // another agent, and all that it has started, is killed first
)

// Unusable begins what the agent says of an image in which commands could not
// write where they must.
const Unusable = wire.Unusable

// Says begins what an agent that cannot serve says on stderr.
const Says = wire.StderrPrefix

// FilesCommand returns the command line of a files.Client's processes, which are the
// agent's program wherever that lies: a command's first process is
// a copy of its supervisor until it executes something else.
func FilesCommand() []string { return []string{"/proc/self/exe", "files"} }

// InitCommand returns the command line of a container's first process. It reaps,
// forwards signals, and ends, and the container with it, after lifetime, or when no
// ServeCommand has run in it for the time abandoned. 0 is never.
func InitCommand(path string, lifetime, abandoned time.Duration) []string {
	return []string{path, "init", max(lifetime, 0).String(), max(abandoned, 0).String()}
}
