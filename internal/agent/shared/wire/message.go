package wire

import (
	"reflect"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/cgroup"
)

// A Message is one of the types of this file.
type Message interface{ code(*codec) }

// messages makes an empty one of each: the first byte of a frame says which, and is
// its place here, from 1. The order is fixed within a Version.
var messages = [...]func() Message{
	of[Hello],
	of[Start],
	of[Started],
	of[Refused],
	of[Exit],
	of[Over],
	of[Empty],
	of[Output],
	of[Signal],
	of[Discard],
	of[Kill],
	of[Killed],
	of[Sweep],
	of[Lost],
	of[Input],
	of[Spawn],
	of[Spawned],
	of[KillOrphans],
	of[OrphansKilled],
	of[Resize],
	of[Dial],
	of[Dialed],
	of[Limits],
	of[Working],
	of[Listen],
	of[Listening],
	of[Swept],
	of[Enter],
	of[Entered],
	of[Offer],
	of[Choice],
	of[Environment],
	of[Handed],
}

func of[T any, M interface {
	*T
	Message
}]() Message {
	return M(new(T))
}

// kinds has the place of each type.
var kinds = func() map[reflect.Type]byte {
	kinds := make(map[reflect.Type]byte)
	for i, empty := range messages {
		kinds[reflect.TypeOf(empty())] = byte(i + 1)
	}
	return kinds
}()

// Hello is the first message of each side, and tells its Version.
type Hello struct{ Version int }

// Limits follows the Hello of an agent in a container: what it sees of the limits
// that the kernel holds the container to. Zero is a limit that is not to be seen,
// negative is none.
type Limits struct {
	Memory int64   // bytes
	CPUs   float64 // processors' worth of time
	PIDs   int64   // processes and threads

	Protected bool // no command can signal the agent
}

// Offer follows the Limits of an agent in a container: a descriptor of its process, which
// is a socket to it. A service on the same machine that may look into the process can
// take it. The secret is the first that comes out of it, and with it another socket, which
// brings what is Handed over.
type Offer struct {
	FD     int
	Secret string
}

// Choice answers an Offer: whether everything else goes through the socket, and not through
// what brought the Offer.
type Choice struct{ Direct bool }

// Environment comes before Limits where serve is asked for it: the environment that the
// engine has given the agent.
type Environment struct{ Env []string }

// Start asks for a command to be started. The answer is Started or Refused. On the
// same stream or socket another may follow Refused, or Exit, Over and Empty.
type Start struct {
	Shell string
	Argv  []string
	Dir   string   // absolute
	Env   []string // all of it

	// User is who the command runs as, as serve resolves it. A supervisor does
	// not look at it.
	User string

	// UID and GID are the numbers it runs as; negative keeps the agent's own.
	UID, GID int64

	// Own says that nobody but this sandbox has processes of UID.
	Own bool

	// Open are directories of the agent's own user, whose mode is set to 01777 first: the
	// command's user is that one too, and commands before may have closed them.
	Open []string

	// Group is the control group that the command starts in, beside the service.
	Group cgroup.Place

	// HasInput says that stdin is not empty; Input then names the yamux stream
	// that it comes on, unless its pipe is handed over.
	HasInput bool
	Input    int

	// Handing is the number of the Handed that brings the command's descriptors; 0 asks
	// for none.
	Handing int

	// Terminal is the size of the terminal that the command gets, or nil.
	Terminal *backend.TerminalSize
}

// Started says that the command runs, or has run and ended meanwhile. Between
// processes of one machine its descriptors come with it: the write end of stdin
// unless it is empty, and the read ends of stdout and stderr; or one of a terminal. From a
// container they are Handed over, where the Start asks for that and they are still of use:
// no Output comes then, and Over says nothing.
type Started struct {
	PID    int
	Handed bool
}

// Handed comes with so many descriptors, which are for the Start, the Dial or the Listen that had
// the same number.
type Handed struct {
	Number, Count int
}

// Refused says that the command could not be started.
type Refused struct{ Err backend.StartError }

// Exit says how the command itself ended. All that was in the pipes at that time
// has been sent before, where Output is sent at all.
type Exit struct{ Exit backend.Exit }

// Over says that the output is over. Only serve says it: a supervisor's owner has
// the pipes.
type Over struct{}

// Empty says that nothing of the command is left.
type Empty struct{}

// Output is a piece of a stream: stdout is 1, stderr is 2.
type Output struct {
	Stream int
	Data   []byte
}

// Signal sends a signal to the command's process group.
type Signal struct{ Signal backend.Signal }

// Resize changes the size of the command's terminal. A supervisor's owner does it
// by itself.
type Resize struct{ Size backend.TerminalSize }

// Discard asks that no more Output is sent.
type Discard struct{}

// Kill asks for the end of the command's whole tree. The answer is Killed: after all
// else, when nothing is left; or Lost. It is answered also when the command was refused,
// or when it has ended; a Start that it overtakes has no other answer.
type Kill struct{}

// Working says that an answer that is due takes longer: whoever is to give it is at
// work, and not stopped.
type Working struct{}

// Killed says what of the tree is left: nothing as a rule.
type Killed struct{ Survivors []backend.Survivor }

// Sweep asks for one pass over users: every process of theirs is killed. A Swept comes for
// each user that has processes left, which may be about to end, and then Killed.
type Sweep struct{ UIDs []int64 }

// Swept says what a Sweep has left of one user.
type Swept struct {
	UID       int64
	Survivors []backend.Survivor
}

// Lost says that the outcome of the command will never be known.
type Lost struct{ Why string }

// Input is the first message on a stream that carries the stdin of the execution
// whose Start has the same number.
type Input struct{ Number int }

// Dial asks for a connection to a TCP port of the loopback address. It is the first
// message on a stream, and the answer is Dialed, after which the stream is that
// connection; or its socket is Handed over, where ID is the number for that, and not 0. Or it is
// asked of an agent beside the service: the answer has the same ID, and comes with the socket.
type Dial struct {
	ID   int
	Port int
}

// Dialed says that the port was reached, or why it was not.
type Dialed struct {
	ID      int
	Refused bool // nobody listens
	Why     string
}

// Listen is the first message on a stream that asks the agent to listen on a TCP port of
// the loopback address, an unused one for 0, for as long as the stream lasts. The answer
// is Listening. Each stream that the agent opens is then a connection to that port; but where
// the Listen has an ID, which only a direct connection may, the listening socket is Handed over
// by that number, and the stream ends. An agent beside the service answers with the same ID, and
// the listening socket comes with the answer.
type Listen struct {
	ID   int
	Port int
}

// Listening says on which port, or why not.
type Listening struct {
	ID   int
	Port int
	Why  string
}

// Spawn asks for a new supervisor. The answer is Spawned, with the same ID.
type Spawn struct{ ID int }

// Spawned comes with the socket of a new supervisor, or says why there is none.
type Spawned struct {
	ID    int
	Errno int
}

// KillOrphans asks that the orphans of supervisors that died be killed, and before that the
// supervisor itself whose Spawn had the ID Supervisor, if it is there still. UID is whose
// they are, if nobody else has processes of it; negative otherwise. The answer is
// OrphansKilled, with the same ID.
type KillOrphans struct {
	ID         int
	UID        int64
	Supervisor int
}

// OrphansKilled says which of them are left: none as a rule.
type OrphansKilled struct {
	ID        int
	Survivors []backend.Survivor
}

func (m *Hello) code(c *codec) { codeInt(c, &m.Version) }

func (m *Limits) code(c *codec) {
	codeInt(c, &m.Memory)
	millionths := int64(m.CPUs * 1e6)
	codeInt(c, &millionths)
	m.CPUs = float64(millionths) / 1e6
	codeInt(c, &m.PIDs)
	c.bool(&m.Protected)
}

func (m *Environment) code(c *codec) { c.strings(&m.Env) }

func (m *Start) code(c *codec) {
	codeString(c, &m.Shell)
	c.strings(&m.Argv)
	codeString(c, &m.Dir)
	c.strings(&m.Env)
	codeString(c, &m.User)
	codeInt(c, &m.UID)
	codeInt(c, &m.GID)
	c.bool(&m.Own)
	c.strings(&m.Open)
	codeInt(c, &m.Group.Version)
	c.strings(&m.Group.Dirs)
	c.bool(&m.HasInput)
	codeInt(c, &m.Input)
	codeInt(c, &m.Handing)
	terminal := m.Terminal != nil
	c.bool(&terminal)
	if !terminal {
		return
	}
	if c.decoding {
		m.Terminal = new(backend.TerminalSize)
	}
	c.size(m.Terminal)
}

func (c *codec) size(s *backend.TerminalSize) {
	codeInt(c, &s.Rows)
	codeInt(c, &s.Cols)
}

func (m *Offer) code(c *codec) {
	codeInt(c, &m.FD)
	codeString(c, &m.Secret)
}

func (m *Choice) code(c *codec) { c.bool(&m.Direct) }
func (m *Resize) code(c *codec) { c.size(&m.Size) }

func (m *Dial) code(c *codec) {
	codeInt(c, &m.ID)
	codeInt(c, &m.Port)
}

func (m *Listen) code(c *codec) {
	codeInt(c, &m.ID)
	codeInt(c, &m.Port)
}

func (m *Listening) code(c *codec) {
	codeInt(c, &m.ID)
	codeInt(c, &m.Port)
	codeString(c, &m.Why)
}

func (m *Dialed) code(c *codec) {
	codeInt(c, &m.ID)
	c.bool(&m.Refused)
	codeString(c, &m.Why)
}

func (m *Started) code(c *codec) {
	codeInt(c, &m.PID)
	c.bool(&m.Handed)
}

func (m *Handed) code(c *codec) {
	codeInt(c, &m.Number)
	codeInt(c, &m.Count)
}

func (m *Refused) code(c *codec) {
	codeString(c, &m.Err.Reason)
	codeString(c, &m.Err.Path)
	codeInt(c, &m.Err.Errno)
	codeString(c, &m.Err.Detail)
}

func (m *Exit) code(c *codec) {
	e := &m.Exit
	codeInt(c, &e.Code)
	codeInt(c, &e.Signal)
	c.bool(&e.OOMKilled)
	if e.Usage == nil {
		e.Usage = new(backend.Usage)
	}
	codeInt(c, &e.Usage.UserTime)
	codeInt(c, &e.Usage.SystemTime)
	codeInt(c, &e.Usage.MaxRSS)
	codeInt(c, &e.Usage.OOMKills)
	if *e.Usage == (backend.Usage{}) { // no process is without memory: it is unknown
		e.Usage = nil
	}
}

func (*Over) code(*codec)  {}
func (*Empty) code(*codec) {}

func (m *Output) code(c *codec) {
	codeInt(c, &m.Stream)
	if c.decoding {
		m.Data, c.buf = c.buf, nil
	} else {
		c.buf = append(c.buf, m.Data...)
	}
}

func (m *Signal) code(c *codec) { codeInt(c, &m.Signal) }
func (*Discard) code(*codec)    {}
func (*Kill) code(*codec)       {}
func (*Working) code(*codec)    {}
func (m *Killed) code(c *codec) { c.survivors(&m.Survivors) }
func (m *Lost) code(c *codec)   { codeString(c, &m.Why) }
func (m *Input) code(c *codec)  { codeInt(c, &m.Number) }
func (m *Spawn) code(c *codec)  { codeInt(c, &m.ID) }

func (m *Sweep) code(c *codec) {
	n := c.length(len(m.UIDs))
	if c.decoding && n > 0 {
		m.UIDs = make([]int64, n)
	}
	for i := range m.UIDs {
		codeInt(c, &m.UIDs[i])
	}
}

func (m *Swept) code(c *codec) {
	codeInt(c, &m.UID)
	c.survivors(&m.Survivors)
}

func (m *Spawned) code(c *codec) {
	codeInt(c, &m.ID)
	codeInt(c, &m.Errno)
}

func (m *KillOrphans) code(c *codec) {
	codeInt(c, &m.ID)
	codeInt(c, &m.UID)
	codeInt(c, &m.Supervisor)
}

func (m *OrphansKilled) code(c *codec) {
	codeInt(c, &m.ID)
	c.survivors(&m.Survivors)
}

func (c *codec) survivors(v *[]backend.Survivor) {
	n := c.length(len(*v))
	if c.decoding && n > 0 {
		*v = make([]backend.Survivor, n)
	}
	for i := range *v {
		codeInt(c, &(*v)[i].PID)
		codeString(c, &(*v)[i].Name)
	}
}
