// Package agent is the service's side of sandbox-agent, a small static program
// that starts commands where a sandbox is: in a container, or beside the service.
//
// For a container: put the program that [Binary] returns there, let the
// container's first process be [InitCommand], start [ServeCommand] with stdin and
// stdout attached and no terminal, and [Dial] them.
//
// Beside the service: [NewLocal].
package agent

import "time"

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
// makes the directory home the user's own before it gives it up.
func ServeCommand(path, home, user string) []string { return []string{path, "serve", home, user} }

// FilesCommand returns the beginning of the command line of a files.Client, whose
// process is the agent's program wherever that lies: a command's first process is
// a copy of its supervisor until it executes something else.
func FilesCommand() []string { return []string{"/proc/self/exe", "files"} }

// InitCommand returns the command line of a container's first process. It reaps,
// forwards signals, and ends, and the container with it, after lifetime; 0 is
// never.
func InitCommand(path string, lifetime time.Duration) []string {
	if lifetime <= 0 {
		return []string{path, "init"}
	}
	return []string{path, "init", lifetime.String()}
}
