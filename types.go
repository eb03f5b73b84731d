package sandbox

import "github.com/sandbox-go/sandbox/backend"

// What sandboxes are made of, and where. These types are also the driver contract's;
// the documentation of their fields and methods is in package backend.
type (
	// A Backend makes sandboxes: local.New, docker.New and fake.New return one. Its
	// owner closes it when the sandboxes and Managers that use it are closed. Its
	// other methods are for this package.
	Backend = backend.Backend

	// BackendInfo is what a backend is and what it promises, as Info.Backend has it.
	BackendInfo = backend.Info

	// Containment says how far a kill reaches.
	Containment = backend.Containment

	// Config is what a sandbox is made of: its image, environment, user, limits,
	// network, egress, mounts, labels and lifetime. The zero value is the backend's defaults.
	Config = backend.Config

	// Limits bound a sandbox: memory in bytes, processors, processes. A zero field is
	// the backend's default, a negative one is no limit.
	Limits = backend.Limits

	// Egress says which connections may lead out of a sandbox: its rules and limits.
	Egress = backend.Egress

	// Mount shows a directory of the host in a sandbox.
	Mount = backend.Mount

	// TerminalSize is rows and columns; a zero side is 24 rows or 80 columns.
	TerminalSize = backend.TerminalSize

	// Usage is what a command has cost.
	Usage = backend.Usage
)

const (
	ContainmentSupervisor   = backend.ContainmentSupervisor   // a kill reaches all that descends from the command
	ContainmentProcessGroup = backend.ContainmentProcessGroup // a kill reaches the command's process group
)

// ParseSignal returns the signal of a name, as Signal.String returns it, with or without
// the SIG: "SIGINT", "INT".
func ParseSignal(name string) (Signal, error) { return backend.ParseSignal(name) }

// A Signal is a signal's number as Linux numbers it, on every platform. 0 is none.
type Signal = backend.Signal

// The signals that commands are commonly sent or ended by.
const (
	SIGHUP   = backend.SIGHUP
	SIGINT   = backend.SIGINT
	SIGQUIT  = backend.SIGQUIT
	SIGILL   = backend.SIGILL
	SIGTRAP  = backend.SIGTRAP
	SIGABRT  = backend.SIGABRT
	SIGBUS   = backend.SIGBUS
	SIGFPE   = backend.SIGFPE
	SIGKILL  = backend.SIGKILL
	SIGUSR1  = backend.SIGUSR1
	SIGSEGV  = backend.SIGSEGV
	SIGUSR2  = backend.SIGUSR2
	SIGPIPE  = backend.SIGPIPE
	SIGALRM  = backend.SIGALRM
	SIGTERM  = backend.SIGTERM
	SIGCHLD  = backend.SIGCHLD
	SIGCONT  = backend.SIGCONT
	SIGSTOP  = backend.SIGSTOP
	SIGTSTP  = backend.SIGTSTP
	SIGTTIN  = backend.SIGTTIN
	SIGTTOU  = backend.SIGTTOU
	SIGXCPU  = backend.SIGXCPU
	SIGXFSZ  = backend.SIGXFSZ
	SIGWINCH = backend.SIGWINCH
	SIGSYS   = backend.SIGSYS
)
