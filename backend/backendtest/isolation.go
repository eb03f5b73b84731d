package backendtest

import (
	"strings"

	"github.com/sandbox-go/sandbox"
)

// isolationCases are about sandboxes beside each other.
func isolationCases() []Case {
	return []Case{{
		Name: "files-are-apart",
		Rule: "A sandbox has a file system, or at least a start directory, of its own.",
		run:  filesAreApart,
	}, {
		Name:  "sandboxes-cannot-reach-each-other",
		Rule:  "Where Info promises a user of the sandbox's own, a sandbox can neither read nor write another's files, nor signal its processes.",
		needs: needShell | needDedicatedUser,
		run:   sandboxesCannotReachEachOther,
	}}
}

func filesAreApart(s *subject) {
	sb := s.newSandbox()
	defer s.closing("the other sandbox", sb.Close)
	s.completed(s.run(appendTo("file")), 0, "", "")
	if n := s.in(sb).size("file"); n != 0 {
		s.Errorf("another sandbox sees a file of %d bytes, want none", n)
	}
	if n := s.size("file"); n != 1 {
		s.Errorf("the next command sees a file of %d bytes, want 1", n)
	}
}

func sandboxesCannotReachEachOther(s *subject) {
	sb := s.newSandbox()
	defer s.closing("the other sandbox", sb.Close)
	other := s.in(sb)
	s.completed(s.shell("echo mine >secret; chmod 666 secret"), 0, "", "")
	dir := strings.TrimSpace(s.shell("pwd").Stdout.String())
	e, stream := s.follow(sandbox.Command{Shell: "echo $$; while printf x >>beat; do sleep 0.03; done"})
	defer stream.Close()
	pid := strings.TrimSpace(string(s.next(stream).Data))
	env := map[string]string{"DIR": dir, "PID": pid}
	for _, text := range []string{
		`cat "$DIR/secret"`,
		`[ -e "$DIR/secret" ] && echo theirs >"$DIR/secret"`,
		`ls "$DIR" | grep secret`,
		`cat "/proc/$PID/cwd/secret"`,
	} {
		rec := other.runCommand(sandbox.Command{Shell: text, Env: env})
		if rec.ExitCode == nil || *rec.ExitCode == 0 || rec.Stdout.Total != 0 {
			s.Errorf("%s: got %s, want a refusal and no output", text, describe(rec))
		}
	}
	// In a process list of its own the number may be the command's itself.
	other.runCommand(sandbox.Command{Shell: `kill -9 "$PID"`, Env: env})
	s.beats("beat")
	s.completed(s.shell("cat secret"), 0, "mine\n", "")
	s.ended(s.cancel(e), sandbox.Cancelled, none)
}
