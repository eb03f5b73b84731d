package namespace

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sandbox-go/sandbox/backend"
)

// Options say what sandboxes are made of. Nil and the zero value are the defaults, which
// are the safe ones.
type Options struct {
	// Root is a directory, as of an image that package image has unpacked, whose content is
	// the root of every sandbox, read-only. Empty is the machine's own programs: its /bin, /etc, /lib, /opt,
	// /sbin and /usr, as far as they are there, and nothing else of it.
	Root string

	// Hide are paths of the sandbox, absolute, at which nothing is to be seen: files are
	// empty, and so are directories.
	Hide []string

	// Mounts are shown in every sandbox, besides those of its Config.
	Mounts []backend.Mount

	// Env is added to the environment of every command, before the sandbox's own.
	Env map[string]string

	// TmpSize bounds /tmp, and /dev/shm, each, in bytes. They are memory. 0 is 256 MiB;
	// negative is half of the machine's memory.
	TmpSize int64

	// Overlay lets commands write to all of Root, which must be set, but for what is mounted
	// below it. What they write is their sandbox's alone, and gone with it. All that belongs
	// to the service's user in Root is as if it were the commands' user's; where newuidmap has
	// given them another number, they may change what everybody may, which is so of all that
	// package image has unpacked. It needs Linux 5.11, or, as root, 5.19 and a Root on a file
	// system with idmapped mounts, such as ext4, XFS and btrfs. Commands then see what Root
	// has in /home, /run and /sys.
	Overlay bool

	// WriteSize bounds what a sandbox holds in /workspace and, with Overlay, has written
	// to its root, together, in bytes; a file counts as 4 KiB at least. It is then memory, which
	// counts to Limits.Memory too: what is above that ends a command rather than its write. 0 or
	// less is no bound, and a place on the disk, in Dir.
	WriteSize int64

	// Limits bound one sandbox. A zero field is its default: 512 processes, besides those of
	// the agent's, and, where the service may make control groups, 1 GiB of memory without
	// swap and one CPU. A negative one is no limit. Where it may not, New refuses limits of
	// memory and CPUs, and Info says so.
	Limits backend.Limits

	// AllowNamespaces lets commands make user namespaces of their own, and what only
	// they make possible, as mounts. Much of the kernel is then theirs to try.
	AllowNamespaces bool

	// Dir is where the sandboxes' start directories are made, in one that Close removes;
	// what services that died have left there is removed by New. It is created if it does
	// not exist. Empty is os.TempDir().
	Dir string

	// Users are the numbers that sandboxes get on the machine when the service runs as
	// root: two each, one for commands and one for what starts them. The zero value is
	// 65,536 numbers from 2,000,000,000 on, or, where a user namespace does not have
	// these, 20,000 from 40,000 on. Services on one machine may share a range.
	Users UserRange
}

// A UserRange is Count numbers of users from First on. None of them may belong to
// anybody.
type UserRange struct{ First, Count uint32 }

const (
	defaultTmpSize int64 = 256 << 20
	defaultPIDs          = 512
	defaultMemory        = 1 << 30
	defaultCPUs          = 1.0
)

// resolve returns a copy of o with every default in its place.
func (o *Options) resolve() Options {
	var r Options
	if o != nil {
		r = *o
	}
	r.TmpSize = cmp.Or(r.TmpSize, defaultTmpSize)
	r.Hide = slices.Clone(r.Hide)
	r.Mounts = slices.Clone(r.Mounts)
	r.Env = maps.Clone(r.Env)
	return r
}

// An Error says what the machine lacks for a sandbox, or what is wrong with its Options.
type Error struct {
	Call   string // that failed, and on what
	Err    error  // why; nil where the call says it all
	Change string // what to change
}

// Error returns the call, the reason and the advice.
func (e *Error) Error() string {
	text := "namespace: " + e.Call
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Change != "" {
		text += ": " + e.Change
	}
	return text
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }
