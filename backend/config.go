package backend

import "time"

// A Config is what one sandbox is made of. The zero value is a sandbox with the
// backend's defaults.
type Config struct {
	// ID names the sandbox; package sandbox sets it. It is unique, and matches
	// [a-z0-9_]+.
	ID string

	// Image is the file system to start from, where the backend has images.
	Image string

	// Env is added to the environment of every command of the sandbox. Package
	// sandbox does that: it is part of each Spec.Env.
	Env map[string]string

	// User is the user that commands run as: a name or a number of the
	// sandbox. Empty is the backend's unprivileged default.
	User string

	// Limits bound what all commands of the sandbox use together.
	Limits Limits

	// Network is the network to join; empty is the backend's default.
	Network string

	// Egress says which connections may lead out of the sandbox, which then has no
	// network but the loopback address. Create refuses it where commands would have
	// another way out, as in another Network. Nil leaves the network as it is.
	Egress *Egress

	// Mounts are directories of the host to show inside.
	Mounts []Mount

	// Labels are kept with the sandbox and given back by its Info. They mean
	// nothing to the library, but for those that begin with "sandbox-go.", with
	// which a Manager finds its sandboxes again.
	Labels map[string]string

	// Lifetime is how long the sandbox may live, from its creation on, even if
	// the service that made it does not. 0 is without end. A Manager enforces it
	// too, so a backend whose sandboxes end with the service has nothing to do.
	Lifetime time.Duration
}

// Limits bound a sandbox. A zero field is the backend's default, a negative one
// is no limit.
type Limits struct {
	Memory int64   // bytes
	CPUs   float64 // processors' worth of time
	PIDs   int64   // processes and threads
}

// A Mount shows a directory of the host inside a sandbox.
type Mount struct {
	Source   string // absolute path on the host
	Target   string // absolute path in the sandbox
	ReadOnly bool
}

// Info is what a backend is and what it promises. What it does not promise
// gates cases of the conformance suite, and excuses nothing else.
type Info struct {
	// Name is the backend's name, as in "docker".
	Name string `json:"name"`

	// Containment says how far a kill reaches.
	Containment Containment `json:"containment"`

	// DedicatedUser: commands run as a user that is neither the service's nor any
	// other sandbox's, so they can signal and read neither.
	DedicatedUser bool `json:"dedicated_user"`

	// DedicatedFiles: commands see a file system of their own, and not the host's.
	DedicatedFiles bool `json:"dedicated_files"`

	// DedicatedNetwork: commands have a network of their own, or none.
	DedicatedNetwork bool `json:"dedicated_network"`

	// DedicatedKernel: commands have a kernel that is not that of the machine on which
	// the sandbox runs, and that they attack first.
	DedicatedKernel bool `json:"dedicated_kernel"`

	// ProtectedAgent: commands cannot signal the processes that keep their sandbox alive.
	// Whatever a command signals, the sandbox lives, and the next command runs.
	ProtectedAgent bool `json:"protected_agent"`

	// OOM: Exit.OOMKilled and Usage.OOMKills are told.
	OOM bool `json:"oom"`

	// Terminal: Spec.Terminal is honoured, and each Process of such a Spec is a
	// Resizer. Files, Ports and Egress: each Instance is a Filer, a Dialer and a
	// Listener. Recover: the Backend is a Recoverer. Without Egress, Create refuses
	// Config.Egress. What decorates one of them by embedding the interface
	// must have these methods too, or take back the promise: package sandbox
	// refuses what is promised and not there.
	Terminal bool `json:"terminal"`
	Files    bool `json:"files"`
	Ports    bool `json:"ports"`
	Egress   bool `json:"egress"`
	Recover  bool `json:"recover"`

	// Connection says how the service reaches what runs commands, where a backend has
	// more than one way, in the backend's words.
	Connection string `json:"connection,omitempty"`

	// Caveats says in sentences, for the person who runs the service, what is
	// not isolated or not promised.
	Caveats []string `json:"caveats,omitempty"`
}

// Containment says how far a kill reaches.
type Containment string

const (
	// ContainmentSupervisor: a kill reaches every process that descends from
	// the command, whatever it did to get away, and the end of the service does
	// too.
	ContainmentSupervisor Containment = "supervisor"

	// ContainmentProcessGroup: a kill reaches the command's process group. A
	// process that leaves it (setsid) escapes, and so does everything when the
	// service itself is killed.
	ContainmentProcessGroup Containment = "process group"
)
