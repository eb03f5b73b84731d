package wire

import "github.com/sandbox-go/sandbox/backend"

// Enter says to the first process of new namespaces what its sandbox is made of. Paths of
// the host are absolute and have no symbolic links. The answer is Entered.
type Enter struct {
	// Root is a directory of the host. The sandbox's root has the entries of it that
	// Entries names, or all, read-only.
	Root    string
	Entries []string

	// Place is an empty directory of the host, where the root is put together.
	Place string

	// Tree, if not 0, is a descriptor of a detached mount of Root, to be used in its place.
	Tree int

	// Data is an empty directory of the host for what commands write. DataSize is how many
	// bytes of memory are to be in its place; 0 is none.
	Data     string
	DataSize int64

	// Overlay has commands write to the root too.
	Overlay bool

	// WorkAt are the paths of the sandbox at which the start directory is.
	WorkAt []string

	Hide   []string        // paths of the sandbox
	Mounts []backend.Mount // sources are of the host, targets of the sandbox

	TmpSize int64 // of each file system in memory, in bytes; negative is no bound

	// UID and GID are who commands run as; negative is who the agent is.
	UID, GID int64

	// Processes is the most processes and threads of a user; negative is no bound.
	Processes int64

	// Limited says that the sandbox has a limit of memory.
	Limited bool

	// Landlock has the kernel refuse commands to write elsewhere than WorkAt, the file systems
	// in memory and the mounts let them.
	Landlock bool

	// Filter is a seccomp program, as the kernel takes it.
	Filter []byte
}

// Entered says that it has entered, or which call has failed, on what, and the kernel's
// number for why, if it gave one.
type Entered struct {
	Failed string // empty when all went well
	Errno  int
}

func (m *Enter) code(c *codec) {
	codeString(c, &m.Root)
	c.strings(&m.Entries)
	codeString(c, &m.Place)
	codeInt(c, &m.Tree)
	codeString(c, &m.Data)
	codeInt(c, &m.DataSize)
	c.bool(&m.Overlay)
	c.strings(&m.WorkAt)
	c.strings(&m.Hide)
	n := c.length(len(m.Mounts))
	if c.decoding && n > 0 {
		m.Mounts = make([]backend.Mount, n)
	}
	for i := range m.Mounts {
		codeString(c, &m.Mounts[i].Source)
		codeString(c, &m.Mounts[i].Target)
		c.bool(&m.Mounts[i].ReadOnly)
	}
	codeInt(c, &m.TmpSize)
	codeInt(c, &m.UID)
	codeInt(c, &m.GID)
	codeInt(c, &m.Processes)
	c.bool(&m.Limited)
	c.bool(&m.Landlock)
	filter := string(m.Filter)
	codeString(c, &filter)
	if c.decoding {
		m.Filter = []byte(filter)
	}
}

func (m *Entered) code(c *codec) {
	codeString(c, &m.Failed)
	codeInt(c, &m.Errno)
}
