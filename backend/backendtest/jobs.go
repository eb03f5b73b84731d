package backendtest

import (
	"math/rand/v2"
	"strings"

	"github.com/sandbox-go/sandbox"
)

// jobCases are about what only a shell on a terminal can do.
func jobCases() []Case {
	return []Case{{
		Name:  "a-terminal-can-be-reopened",
		Rule:  "All three streams are the terminal, which may be opened again by its name.",
		needs: needTerminal | needShell,
		run:   aTerminalCanBeReopened,
	}, {
		Name:  "a-terminal-controls",
		Rule:  "The terminal is the controlling one, and may be opened as /dev/tty.",
		needs: needTerminal | needShell,
		run:   aTerminalControls,
	}, {
		Name:  "jobs-are-controlled",
		Rule:  "An interactive shell has job control: Ctrl-Z stops a job, fg goes on with it, Ctrl-C ends it, Ctrl-D ends the input of another, and the shell lives on.",
		needs: needTerminal | needShell,
		run:   jobsAreControlled,
	}, {
		Name:  "ctrl-c-reaches-the-foreground-only",
		Rule:  "Ctrl-C ends the job in the foreground; a job in the background and the shell go on.",
		needs: needTerminal | needShell,
		run:   ctrlCReachesTheForegroundOnly,
	}, {
		Name:  "a-kill-reaches-jobs",
		Rule:  "A kill of an interactive shell reaches its jobs, in the background, stopped, or in the foreground, though each has a process group of its own.",
		needs: needTerminal | needShell | needSupervisor,
		run:   aKillReachesJobs,
	}, {
		Name:  "a-raw-terminal-passes-all",
		Rule:  "On a terminal in raw mode every byte passes as it is, in both directions, however many.",
		needs: needTerminal | needShell,
		run:   aRawTerminalPassesAll,
	}}
}

func aTerminalCanBeReopened(s *subject) {
	t := s.open(sandbox.Command{
		Shell: `[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo a >$(tty); echo c >/dev/stderr
stty -echo; read -r x <$(tty); echo "got:$x"`,
		Terminal: &sandbox.TerminalSize{},
	})
	t.shows("a\r\nc\r\n")
	t.types("typed\r")
	t.shows("got:typed\r\n")
	s.ended(t.ends(), sandbox.Completed, 0)
	s.completed(s.shell("[ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo none"), 0, "none\n", "")
}

func aTerminalControls(s *subject) {
	t := s.open(sandbox.Command{
		Shell:    `echo a >/dev/tty; stty -echo; read -r x </dev/tty; echo "got:$x"`,
		Terminal: &sandbox.TerminalSize{},
	})
	t.shows("a\r\n")
	t.types("typed\r")
	t.shows("got:typed\r\n")
	s.ended(t.ends(), sandbox.Completed, 0)
}

func jobsAreControlled(s *subject) {
	t := s.interactive()
	t.job(`trap "echo ba""ck" CONT; (` + started + `; exec sleep 9) & wait; wait`)
	t.types("\x1a")
	t.shows("topped") // how it begins depends on the shell
	t.types("echo in''side\r")
	t.shows("inside\r\n")
	t.types("fg\r")
	t.shows("back\r\n")
	t.types("\x03")
	t.types("echo ou''tside $?\r")
	t.shows("outside 130\r\n")
	t.job(started + "; cat")
	t.types("one\r")
	t.shows("one\r\none\r\n")
	t.types("\x04")
	t.types("echo ag''ain $?\r")
	t.shows("again 0\r\n")
	t.types("exit 3\r")
	s.ended(t.ends(), sandbox.Completed, 3)
	if text := t.exec.Execution().Stdout.String(); strings.Contains(text, "job control") || strings.Contains(text, "tty") {
		s.Errorf("the shell complains: %q", text)
	}
}

func ctrlCReachesTheForegroundOnly(s *subject) {
	t := s.interactive()
	t.types("while printf x >>back; do sleep 0.03; done &\r")
	t.types("sh -c 'while printf x >>front; do sleep 0.03; done'\r")
	s.beats("back", "front")
	t.types("\x03")
	t.types("echo al''ive $?\r")
	t.shows("alive 130\r\n")
	s.rests("front")
	s.beats("back")
	t.types("kill %1; exit 4\r")
	s.ended(t.ends(), sandbox.Completed, 4)
	s.rests("back")
}

func aKillReachesJobs(s *subject) {
	t := s.interactive()
	t.types("while printf x >>back; do sleep 0.03; done &\r")
	t.types("nohup sh -c 'while printf x >>deaf; do sleep 0.03; done' >/dev/null 2>&1 &\r")
	t.job(started + "; exec sleep 90")
	s.beats("back", "deaf")
	t.types("\x1a")
	t.shows("topped")
	t.job(started + "; exec sleep 90")
	s.ended(s.cancel(t.exec), sandbox.Cancelled, none)
	t.stream.Close()
	s.rests("back", "deaf")
}

func aRawTerminalPassesAll(s *subject) {
	random := make([]byte, 200_000)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	t := s.open(sandbox.Command{
		Shell:    "stty raw -echo; printf ready; head -c 200000; printf end",
		Terminal: &sandbox.TerminalSize{},
	})
	t.shows("ready")
	t.types(string(random))
	s.completed(t.ends(), 0, "ready"+string(random)+"end", "")
}

// interactive starts a shell as a person has it, and waits until it listens.
func (s *subject) interactive() *screen {
	s.Helper()
	t := s.open(sandbox.Command{
		Argv:     []string{"sh", "-i"},
		Env:      map[string]string{"PS1": "", "ENV": ""},
		Terminal: &sandbox.TerminalSize{},
	})
	t.types("echo re''ady\r")
	t.shows("ready\r\n")
	return t
}

// started is what a job says when it may be stopped: not while a shell forks, or it
// would wait for a child that is stopped already.
const started = `echo st""arted`

// job runs a text, which says that it has started, in the foreground of an
// interactive shell, and waits until it has the terminal.
func (t *screen) job(text string) {
	t.Helper()
	t.types("sh -c '" + text + "'\r")
	t.shows("started\r\n")
}
