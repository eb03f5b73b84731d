package wire

import "github.com/sandbox-go/sandbox/backend"

// A Kind says which message a frame holds.
type Kind byte

// The numbers are fixed within a Version.
const (
	KindHello Kind = iota + 1
	KindStart
	KindStarted
	KindRefused
	KindExit
	KindOver
	KindEmpty
	KindOutput
	KindSignal
	KindDiscard
	KindKill
	KindKilled
	KindSweep
	KindLost
	KindInput
	KindSpawn
	KindSpawned
	KindSettle
	KindSettled
	KindResize
	KindDial
	KindDialed
	KindLimits
	KindWorking
)

// A Message is one of the types of this file.
type Message interface {
	Kind() Kind
	code(*codec)
}

// Hello is the first message of each side, and tells its Version.
type Hello struct{ Version int }

// Limits follows the Hello of an agent in a container: what it sees of the limits
// that the kernel holds the container to. Zero is a limit that is not to be seen,
// negative is none.
type Limits struct {
	Memory int64   // bytes
	CPUs   float64 // processors' worth of time
	PIDs   int64   // processes and threads
}

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

	// HasInput says that stdin is not empty; Input then names the yamux stream
	// that it comes on.
	HasInput bool
	Input    int

	// Terminal is the size of the terminal that the command gets, or nil.
	Terminal *backend.TerminalSize
}

// Started says that the command runs, or has run and ended meanwhile. Between
// processes of one machine its descriptors come with it: the write end of stdin
// unless it is empty, and the read ends of stdout and stderr; or one of a terminal.
type Started struct{ PID int }

// Refused says that the command could not be started.
type Refused struct{ backend.StartError }

// Exit says how the command itself ended. All that was in the pipes at that time
// has been sent before, where Output is sent at all.
type Exit struct{ backend.Exit }

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
type Resize struct{ backend.TerminalSize }

// Discard asks that no more Output is sent.
type Discard struct{}

// Kill asks for the end of the command's whole tree. The answer is Killed: after all
// else, when nothing is left; or Lost. It is answered also when the command was refused,
// or when it has ended; a Start that it overtakes has no other answer.
type Kill struct{}

// Working says that an answer that is due takes longer: whoever is to give it is at
// work, and not stopped.
type Working struct{}

// Killed says what of the tree, or of the user, is left: nothing as a rule.
type Killed struct{ Survivors []backend.Survivor }

// Sweep asks for the end of every process of UID. The answer is Killed.
type Sweep struct{ UID int64 }

// Lost says that the outcome of the command will never be known.
type Lost struct{ Why string }

// Input is the first message on a stream that carries the stdin of the execution
// whose Start has the same number.
type Input struct{ Number int }

// Dial is the first message on a stream that is to become a connection to a TCP
// port of the loopback address. The answer is Dialed, and then the stream is one.
type Dial struct{ Port int }

// Dialed says that the port was reached, or why it was not.
type Dialed struct {
	Refused bool // nobody listens
	Why     string
}

// Spawn asks for a new supervisor. The answer is Spawned, with the same ID.
type Spawn struct{ ID int }

// Spawned comes with the socket of a new supervisor, or says why there is none.
type Spawned struct {
	ID    int
	Errno int
}

// Settle asks that the orphans of supervisors that died be killed, and before that the
// supervisor itself whose Spawn had the ID Supervisor, if it is there still. UID is whose
// they are, if nobody else has processes of it; negative otherwise. The answer is
// Settled, with the same ID.
type Settle struct {
	ID         int
	UID        int64
	Supervisor int
}

// Settled says which of them are left: none as a rule.
type Settled struct {
	ID        int
	Survivors []backend.Survivor
}

func (*Resize) Kind() Kind  { return KindResize }
func (*Dial) Kind() Kind    { return KindDial }
func (*Dialed) Kind() Kind  { return KindDialed }
func (*Hello) Kind() Kind   { return KindHello }
func (*Start) Kind() Kind   { return KindStart }
func (*Started) Kind() Kind { return KindStarted }
func (*Refused) Kind() Kind { return KindRefused }
func (*Exit) Kind() Kind    { return KindExit }
func (*Over) Kind() Kind    { return KindOver }
func (*Empty) Kind() Kind   { return KindEmpty }
func (*Output) Kind() Kind  { return KindOutput }
func (*Signal) Kind() Kind  { return KindSignal }
func (*Discard) Kind() Kind { return KindDiscard }
func (*Kill) Kind() Kind    { return KindKill }
func (*Killed) Kind() Kind  { return KindKilled }
func (*Sweep) Kind() Kind   { return KindSweep }
func (*Lost) Kind() Kind    { return KindLost }
func (*Input) Kind() Kind   { return KindInput }
func (*Spawn) Kind() Kind   { return KindSpawn }
func (*Spawned) Kind() Kind { return KindSpawned }
func (*Settle) Kind() Kind  { return KindSettle }
func (*Settled) Kind() Kind { return KindSettled }
func (*Limits) Kind() Kind  { return KindLimits }
func (*Working) Kind() Kind { return KindWorking }

func (m *Hello) code(c *codec) { codeInt(c, &m.Version) }

func (m *Limits) code(c *codec) {
	codeInt(c, &m.Memory)
	millionths := int64(m.CPUs * 1e6)
	codeInt(c, &millionths)
	m.CPUs = float64(millionths) / 1e6
	codeInt(c, &m.PIDs)
}

func (m *Start) code(c *codec) {
	codeString(c, &m.Shell)
	c.strings(&m.Argv)
	codeString(c, &m.Dir)
	c.strings(&m.Env)
	codeString(c, &m.User)
	codeInt(c, &m.UID)
	codeInt(c, &m.GID)
	c.bool(&m.Own)
	c.bool(&m.HasInput)
	codeInt(c, &m.Input)
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

func (m *Resize) code(c *codec) { c.size(&m.TerminalSize) }
func (m *Dial) code(c *codec)   { codeInt(c, &m.Port) }

func (m *Dialed) code(c *codec) {
	c.bool(&m.Refused)
	codeString(c, &m.Why)
}

func (m *Started) code(c *codec) { codeInt(c, &m.PID) }

func (m *Refused) code(c *codec) {
	codeString(c, &m.Reason)
	codeString(c, &m.Path)
	codeInt(c, &m.Errno)
	codeString(c, &m.Detail)
}

func (m *Exit) code(c *codec) {
	codeInt(c, &m.Code)
	codeInt(c, &m.Signal)
	c.bool(&m.OOMKilled)
	if m.Usage == nil {
		m.Usage = new(backend.Usage)
	}
	codeInt(c, &m.Usage.UserTime)
	codeInt(c, &m.Usage.SystemTime)
	codeInt(c, &m.Usage.MaxRSS)
	codeInt(c, &m.Usage.OOMKills)
	if *m.Usage == (backend.Usage{}) { // no process is without memory: it is unknown
		m.Usage = nil
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
func (m *Sweep) code(c *codec)  { codeInt(c, &m.UID) }
func (m *Lost) code(c *codec)   { codeString(c, &m.Why) }
func (m *Input) code(c *codec)  { codeInt(c, &m.Number) }
func (m *Spawn) code(c *codec)  { codeInt(c, &m.ID) }

func (m *Spawned) code(c *codec) {
	codeInt(c, &m.ID)
	codeInt(c, &m.Errno)
}

func (m *Settle) code(c *codec) {
	codeInt(c, &m.ID)
	codeInt(c, &m.UID)
	codeInt(c, &m.Supervisor)
}

func (m *Settled) code(c *codec) {
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

// newMessage returns an empty message of that kind, or nil.
func newMessage(k Kind) Message {
	switch k {
	case KindHello:
		return new(Hello)
	case KindStart:
		return new(Start)
	case KindStarted:
		return new(Started)
	case KindRefused:
		return new(Refused)
	case KindExit:
		return new(Exit)
	case KindOver:
		return new(Over)
	case KindEmpty:
		return new(Empty)
	case KindOutput:
		return new(Output)
	case KindSignal:
		return new(Signal)
	case KindDiscard:
		return new(Discard)
	case KindKill:
		return new(Kill)
	case KindKilled:
		return new(Killed)
	case KindSweep:
		return new(Sweep)
	case KindLost:
		return new(Lost)
	case KindInput:
		return new(Input)
	case KindSpawn:
		return new(Spawn)
	case KindSpawned:
		return new(Spawned)
	case KindSettle:
		return new(Settle)
	case KindSettled:
		return new(Settled)
	case KindResize:
		return new(Resize)
	case KindDial:
		return new(Dial)
	case KindDialed:
		return new(Dialed)
	case KindLimits:
		return new(Limits)
	case KindWorking:
		return new(Working)
	}
	return nil
}
