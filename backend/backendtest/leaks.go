package backendtest

import (
	"fmt"
	"os"
	"strings"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// leakCases are about what executions leave behind in the service, and what they
// see of it.
func leakCases() []Case {
	return []Case{{
		Name:  "ten-thousand-runs-leave-nothing",
		Rule:  "Ten thousand executions, one after another, are each exact, and goroutines, descriptors and memory stay flat.",
		alone: true,
		run:   tenThousandRunsLeaveNothing,
	}, {
		Name:  "a-closed-sandbox-leaves-nothing",
		Rule:  "A closed sandbox leaves neither goroutines nor descriptors, whatever ran in it.",
		alone: true,
		run:   aClosedSandboxLeavesNothing,
	}, {
		Name:  "a-closed-backend-leaves-nothing",
		Rule:  "Close releases what the backend holds: goroutines and descriptors.",
		alone: true,
		run:   aClosedBackendLeavesNothing,
	}, {
		Name:  "the-service-is-not-seen",
		Rule:  "Nothing of the service's environment is seen by commands, and a command has no descriptors but its three streams; of the supervisor nothing is seen at all.",
		needs: needShell,
		alone: true,
		run:   theServiceIsNotSeen,
	}}
}

func tenThousandRunsLeaveNothing(s *subject) {
	var use usage
	for i := range full(10_000, 500) {
		if i == 150 { // by then all records are kept that ever are
			use = measure()
		}
		text := fmt.Sprintf("%d\n", i)
		s.completed(s.run(print(text)), 0, text, "")
	}
	s.flat(use)
	if n := len(s.Execs()); n != 100 {
		s.Errorf("%d records are kept, want 100", n)
	}
}

func aClosedSandboxLeavesNothing(s *subject) {
	var use usage
	for i := range full(100, 13) {
		if i == 3 {
			use = measure()
		}
		sb := s.newSandbox()
		other := s.in(sb)
		cmd := s.command(spawn(sleep(long)), print("x"))
		cmd.Wait = sandbox.WaitExit
		other.completed(other.runCommand(cmd), 0, "x", "")
		other.start(s.command(zeros(1<<20), sleep(long)))
		s.closing("the sandbox", sb.Close)
	}
	s.flat(use)
}

func aClosedBackendLeavesNothing(s *subject) {
	var use usage
	for i := range 4 {
		if i == 1 {
			use = measure()
		}
		b := s.h.New(s)
		sb := s.newSandboxIn(b, s.h.Config)
		other := s.in(sb)
		other.completed(other.run(print("x")), 0, "x", "")
		s.closing("the sandbox", sb.Close)
		s.closing("the backend", b.Close)
	}
	s.flat(use)
}

func theServiceIsNotSeen(s *subject) {
	const name, secret = "SANDBOX_TEST_SECRET", "only-the-service-knows-this"
	os.Setenv(name, secret)
	defer os.Unsetenv(name)
	file, err := os.Open(os.DevNull)
	if err != nil {
		s.Fatalf("open: %v", err)
	}
	defer file.Close()
	b := s.h.New(s)
	defer s.closing("the other backend", b.Close)
	sb := s.newSandboxIn(b, s.h.Config)
	defer s.closing("the other sandbox", sb.Close)
	other := s.in(sb)
	if env := other.shell("env").Stdout.String(); strings.Contains(env, secret) || !strings.Contains(env, "PATH=") {
		s.Errorf("env prints %q, want a PATH and no secret", env)
	}
	if !s.h.Proc {
		return
	}
	// The shell's, which ls does not take the place of.
	s.printed(other.shell("ls /proc/$$/fd; :"), "0\n1\n2\n", "")
	if b.Info().Containment == backend.ContainmentSupervisor {
		s.printed(other.shell("{ ls /proc/$PPID/fd; cat /proc/$PPID/environ; } 2>/dev/null"), "", "")
	}
	if !b.Info().DedicatedUser {
		return
	}
	rec := other.shell("cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep " + name + "=[o]nly")
	s.printed(rec, "", "")
}
