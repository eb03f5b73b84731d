// Package backendtest holds a backend to the rules of package backend. A backend's
// own test is one call:
//
//	func TestConformance(t *testing.T) {
//		backendtest.Run(t, backendtest.Harness{
//			New: func(tb testing.TB) backend.Backend {
//				b, err := mine.New(nil)
//				if err != nil {
//					tb.Fatal(err)
//				}
//				return b
//			},
//			Shell: true,
//			Proc:  true,
//		})
//	}
//
// Each case has a name, the rule that it checks, and a sandbox of its own. It goes
// through package sandbox, as users meet a backend; only what users cannot reach
// is asked of the driver. It looks for effects, from within the sandbox: not
// whether a kill returned nil, but whether the file has stopped growing that a
// survivor would have gone on writing. [Cases] lists all.
//
// What a command does is mostly a [Program] of few primitives. It is rendered to
// text for sh that dash and busybox understand, with these programs beside it:
// awk, cat, head, setsid, sleep, wc. A backend without a shell interprets it (see
// [Program.Run]). Cases in the shell's own words need Harness.Shell, and beside
// those: chmod, dd, env, grep, ln, ls, mkdir, mkfifo, mv, nohup, rm, tail, timeout,
// tr. Cases on terminals need stty and tty.
//
// A case that needs more than the backend promises in its Info, or than the
// harness says it has, is skipped and says so. The backend's name is never looked
// at.
//
// The first case runs one command. When it fails, the others are not run. A case that
// hangs fails alone, with the stacks of all goroutines. With -v each case says how it
// ended as soon as it has.
//
// Long cases are cut short: they have the counts and times that they promise with
// SANDBOX_TEST_FULL=1 in the environment.
//
// One rule is not checked, since no test can die and go on: that the commands of a
// service that was killed end with it (backend.ContainmentSupervisor). A backend
// that promises it needs a test of its own with a second process.
package backendtest

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// A Harness is a backend under test, and what is to be known about its
// sandboxes. Only New is required.
type Harness struct {
	// New returns a fresh backend. The case closes it.
	New func(testing.TB) backend.Backend

	// Config is what sandboxes are made of; nil is the backend's defaults. It has
	// to allow 200 processes and 100 MB of files.
	Config *backend.Config

	// Command makes a command of a program. Nil renders it for sh.
	Command func(Program) sandbox.Command

	// Bubble runs each case in a testing/synctest bubble, where time is virtual.
	Bubble bool

	// Shell: sandboxes have a sh, the programs that the package comment names, and
	// a start directory that commands may write to.
	Shell bool

	// Proc: sandboxes have a Linux /proc.
	Proc bool

	// HostProc: processes of sandboxes are seen in this machine's /proc.
	HostProc bool

	// Refused is a configuration with which Create fails; nil when there is none.
	Refused *backend.Config

	// Echo makes a command that listens on a TCP port of the loopback address and
	// sends back what each connection brings, until that has ended; nil when there
	// is none. Any server of that kind will do: "nc -ll -p PORT -e cat" of busybox,
	// "socat TCP-LISTEN:PORT,fork EXEC:cat", or a program of your own.
	Echo func(port int) sandbox.Command

	// Connect makes a command that connects to a TCP port, sends what its stdin brings
	// and prints what the connection does, until that has ended: "nc HOST PORT" of busybox,
	// or a program of your own. When it cannot connect it prints nothing on stdout. Nil when
	// there is none.
	Connect func(host string, port int) sandbox.Command

	// Tracer makes a command that attaches to a process of the sandbox with
	// PTRACE_SEIZE, prints "tracing" and never waits for it; nil when there is none.
	Tracer func(pid int) sandbox.Command

	// Skip names cases that cannot hold where the sandboxes are, for a fault that is
	// not the backend's, and says which.
	Skip map[string]string

	// Lose makes the sandbox of that id die without Destroy; nil when it cannot be
	// done.
	Lose func(tb testing.TB, b backend.Backend, id string)
}

// A Case checks one rule.
type Case struct {
	Name string // as in "timeout-kills-background"
	Rule string // in words

	needs need
	alone bool // it counts what other cases have too
	smoke bool // it comes first, and has to end soon
	run   func(*subject)
}

// Cases returns all cases, by theme.
func Cases() []Case {
	return slices.Concat(
		smokeCase(), endedCases(), startCases(), overCases(), inputCases(), outputCases(), readerCases(),
		killCases(), escapeCases(), lifeCases(), leakCases(), isolationCases(), driverCases(),
		writtenCases(), signalCases(), handleCases(),
		fileCases(), directoryCases(), tarCases(), reachCases(), portCases(), egressCases(),
		terminalCases(), jobCases(),
	)
}

// Run runs each case as a subtest of t, in parallel where they do not disturb each
// other. The first runs alone: when it fails, nothing else can work, and the others
// are not run.
func Run(t *testing.T, h Harness) {
	cases := Cases()
	for name := range h.Skip {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.Name == name }) {
			t.Errorf("Harness.Skip names %q, which is no case", name)
		}
	}
	if !runCase(t, cases[0], h, false) {
		t.Fatalf("the backend runs no command at all: the other %d cases are not run", len(cases)-1)
	}
	for _, c := range cases[1:] {
		runCase(t, c, h, !c.alone)
	}
}

func runCase(t *testing.T, c Case, h Harness, parallel bool) bool {
	return t.Run(c.Name, func(t *testing.T) {
		if parallel {
			t.Parallel()
		}
		if !h.Bubble {
			c.Check(t, h)
			return
		}
		skipped := false
		synctest.Test(t, func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			c.Check(t, h)
		})
		if skipped {
			t.SkipNow() // the bubble's test does not pass it on
		}
	})
}

// A case that takes caseTime is cancelled. One that then still hangs after hangTime
// fails alone, and the test goes on without it.
const (
	caseTime  = 3 * time.Minute
	smokeTime = 30 * time.Second
	hangTime  = time.Minute
)

// Check runs the case and reports to tb. With Harness.Bubble the caller provides
// the bubble.
func (c Case) Check(tb testing.TB, h Harness) {
	limit := caseTime
	if c.smoke {
		limit = smokeTime
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	watched(tb, limit+hangTime, func(tb testing.TB) { c.check(ctx, tb, h) })
}

func (c Case) check(ctx context.Context, tb testing.TB, h Harness) {
	began := time.Now()
	s := &subject{TB: tb, h: h, ctx: ctx}
	if why := h.Skip[c.Name]; why != "" {
		tb.Skip(why)
	}
	s.backend = h.New(tb)
	defer s.closing("the backend", s.backend.Close)
	if missing := c.needs.missing(h, s.backend.Info()); missing != "" {
		tb.Skipf("it needs %s", missing)
	}
	defer func() {
		// The testing package tells how a parallel test ended when all have.
		if tb.Failed() {
			tb.Logf("failed after %v: the rule is: %s", time.Since(began).Round(time.Millisecond), c.Rule)
		} else {
			tb.Logf("holds, after %v", time.Since(began).Round(time.Millisecond))
		}
	}()
	b := &spy{Backend: s.backend}
	cfg := h.Config
	if c.needs&needEgress != 0 {
		cfg = s.withEgress()
	}
	s.Sandbox = s.newSandboxIn(b, cfg)
	s.instance = b.instance
	defer s.closing("the sandbox", s.Sandbox.Close)
	c.run(s)
}

// A need is what a case cannot do without.
type need uint

const (
	needShell need = 1 << iota
	needProc
	needHostProc
	needRefused
	needLose
	needSupervisor
	needDedicatedUser
	needOOM
	needDedicatedFiles
	needDedicatedPorts
	needFiles
	needPorts
	needEgress
	needTerminal
	needEcho
	needTracer
)

// missing returns what is missing in words, or nothing.
func (n need) missing(h Harness, info backend.Info) string {
	var missing []string
	for _, q := range []struct {
		need need
		has  bool
		name string
	}{
		{needShell, h.Shell, "a shell"},
		{needProc, h.Proc, "a /proc in the sandbox"},
		{needHostProc, h.HostProc, "the sandbox's processes in this machine's /proc"},
		{needRefused, h.Refused != nil, "a configuration that is refused"},
		{needLose, h.Lose != nil, "a way to lose a sandbox"},
		{needSupervisor, info.Containment == backend.ContainmentSupervisor, "containment by a supervisor"},
		{needDedicatedUser, info.DedicatedUser, "a user of the sandbox's own"},
		{needOOM, info.OOM, "kills for memory to be told"},
		{needDedicatedFiles, info.DedicatedFiles, "files of the sandbox's own"},
		{needDedicatedPorts, info.DedicatedUser || info.DedicatedNetwork, "a user or a network of the sandbox's own"},
		{needFiles, info.Files, "files"},
		{needPorts, info.Ports, "ports"},
		{needEgress, info.Egress && h.Connect != nil, "egress, and a command that connects"},
		{needTerminal, info.Terminal, "terminals"},
		{needEcho, h.Echo != nil, "a server that echoes"},
		{needTracer, h.Tracer != nil, "a tracer"},
	} {
		if n&q.need != 0 && !q.has {
			missing = append(missing, q.name)
		}
	}
	return strings.Join(missing, ", ")
}

// full returns what a long case is promised to do, or what shows its rule too and is
// quick.
func full[T int | time.Duration](promised, quick T) T {
	if os.Getenv("SANDBOX_TEST_FULL") == "1" {
		return promised
	}
	return quick
}
