package docker

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/contained"
)

// Options say which engine to use and what sandboxes are made of. Nil and the
// zero value are the defaults, which are the safe ones. A [backend.Config] wins
// over them where it says something.
type Options struct {
	// Host is the engine's address, as in "unix:///run/docker.sock" or
	// "tcp://10.0.0.7:2376". Empty is what the docker command would use:
	// DOCKER_HOST, or else the context that DOCKER_CONTEXT or the docker
	// command's configuration names, or else the local socket.
	Host string

	// Owner names the service. Containers carry it, and a service started again
	// recovers and tidies what carries its own name, never another's. Empty is
	// "default".
	Owner string

	// Image is what sandboxes start from. Empty is [DefaultImage]. Its
	// environment is kept; its entrypoint, user, working directory and health
	// check are not used.
	Image string

	// Pull says when an image is fetched from its registry.
	Pull PullPolicy

	// Progress is called with what a pull reports, from the goroutine that
	// creates the sandbox. Nil is silent.
	Progress func(PullProgress)

	// Connection says how the service speaks with the agent of a container. Empty is
	// ConnectDirect where that can be had, found out for each sandbox, and else
	// ConnectEngine. Info says which it was for the last one.
	Connection Connection

	// Runtime is the name under which the engine knows the OCI runtime, as in
	// "runsc" or "kata". Empty is the engine's default.
	Runtime string

	// Network is the network that sandboxes join. Empty is "none". Ports of sandboxes
	// that share a network, with "host" or "container:ID", cannot be told from others'
	// there, so Dial answers errors.ErrUnsupported.
	Network string

	// Limits bound one sandbox. A zero field is its default: 512 processes,
	// 1 GiB of memory without swap, one CPU. A negative one is no limit, which
	// must be said where the engine does not enforce it: Create fails otherwise.
	// Of an execution there is also a supervisor in the container, of 10 threads and
	// 3 MB: 16 of them come on top of the processes, and each more takes 10. So a
	// sandbox of 512 runs some 60 commands of one thread at once, or some 50 small Go
	// programs.
	Limits backend.Limits

	// TmpSize bounds /tmp, which is memory and counts as such. 0 is 256 MiB;
	// negative is bounded by the memory limit only.
	TmpSize int64

	// ReadOnly makes all files of the image read-only. /workspace, /home/user
	// and /tmp are not files of the image.
	ReadOnly bool

	// Mounts are shown in every sandbox, besides those of its Config.
	Mounts []backend.Mount

	// Env is added to the environment of every command, after the image's and
	// before the sandbox's own.
	Env map[string]string

	// AbandonAfter is for how long a container outlives its service: one to which
	// no service has been connected for so long ends by itself. 0 is 24 hours;
	// negative is for ever, or until the sandbox's Lifetime is over.
	AbandonAfter time.Duration

	// Labels are put on every container, besides those of the sandbox's Config.
	Labels map[string]string

	// Logger takes what the engine warns of when it makes a container, and why a
	// connection is not direct that might be, each text once. Nil is silent. A limit
	// that the engine drops is an error of Create.
	Logger *slog.Logger
}

// A Connection is a way between the service and the agent of a container.
type Connection string

const (
	// ConnectDirect is a socket that the service takes out of the agent's process
	// (pidfd_getfd), so that the engine is not in the way of a message or a byte: a
	// command costs less, and it goes on when the engine restarts. It takes Linux 5.6,
	// an engine on this machine behind a unix socket, and a service that sees the
	// container's processes and may trace them, which is root as a rule. No command can
	// see or reach the socket, which has no name and is not on any disk.
	ConnectDirect Connection = "direct"

	// ConnectEngine is an exec of the engine's.
	ConnectEngine Connection = "engine"
)

const (
	// DefaultImage is what a sandbox starts from when nothing else is said.
	DefaultImage = "debian:stable-slim"

	defaultOwner              = "default"
	noNetwork                 = "none"
	defaultPIDs               = 512
	defaultMemory             = 1 << 30
	defaultCPUs               = 1.0
	defaultAbandonAfter       = 24 * time.Hour
	defaultTmpSize      int64 = 256 << 20
)

// resolve returns a copy of o with every default in its place.
func (o *Options) resolve() Options {
	var r Options
	if o != nil {
		r = *o
	}
	r.Owner = cmp.Or(r.Owner, defaultOwner)
	r.Image = cmp.Or(r.Image, DefaultImage)
	r.Pull = cmp.Or(r.Pull, PullMissing)
	r.Network = cmp.Or(r.Network, noNetwork)
	r.TmpSize = cmp.Or(r.TmpSize, defaultTmpSize)
	r.Limits = contained.FillLimits(r.Limits, backend.Limits{Memory: defaultMemory, CPUs: defaultCPUs, PIDs: defaultPIDs})
	r.AbandonAfter = cmp.Or(r.AbandonAfter, defaultAbandonAfter)
	r.Mounts = slices.Clone(r.Mounts)
	r.Env = maps.Clone(r.Env)
	r.Labels = maps.Clone(r.Labels)
	return r
}
