package backendtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox"
)

// inputCases are about what a command is given.
func inputCases() []Case {
	return []Case{{
		Name: "no-input-is-an-empty-one",
		Rule: "Stdin is empty unless it is given: a command that reads it sees the end at once.",
		run:  noInputIsAnEmptyOne,
	}, {
		Name: "input-ends",
		Rule: "Stdin is streamed to the command, its end too.",
		run:  inputEnds,
	}, {
		Name: "input-comes-as-it-is-written",
		Rule: "Stdin is streamed: the command gets a line when it is written, and not when the input ends.",
		run:  inputComesAsItIsWritten,
	}, {
		Name: "unread-input-is-no-error",
		Rule: "A command that ends without reading its input is no error, and a Read in progress then is not waited for.",
		run:  unreadInputIsNoError,
	}, {
		Name: "a-failing-input-ends",
		Rule: "A Read that fails or panics ends the input there, and is no error of the command; the record says why the input ended.",
		run:  aFailingInputEnds,
	}, {
		Name: "input-and-output-do-not-lock",
		Rule: "A command that copies a long input to its output, which is read late, gets and delivers all.",
		run:  inputAndOutputDoNotLock,
	}, {
		Name: "late-input-is-whole",
		Rule: "An input that has ended waits for a command that reads it much later, and none of it is lost.",
		run:  lateInputIsWhole,
	}, {
		Name: "every-byte-passes",
		Rule: "Bytes are exact, in both directions: no byte has a meaning.",
		run:  everyBytePasses,
	}, {
		Name: "input-is-not-the-script",
		Rule: "The text of a command leaves stdin to the command: a read in its first line takes none of its second.",
		run:  inputIsNotTheScript,
	}, {
		Name: "the-variables-of-a-command-win",
		Rule: "A command sees the sandbox's environment and its own; its own wins. Newlines and what looks like shell are kept in values.",
		run:  theVariablesOfACommandWin,
	}, {
		Name:  "long-text-runs",
		Rule:  "Shell text of any length up to 1 MiB runs, as a short one does, and so does an environment of 100 KB, and one of as much as Linux takes.",
		needs: needShell,
		run:   longTextRuns,
	}, {
		Name:  "text-means-what-the-shell-says",
		Rule:  "What a shell text means is the shell's business: quotes, here-documents, several lines and CRLF reach it unchanged.",
		needs: needShell,
		run:   textMeansWhatTheShellSays,
	}, {
		Name:  "arguments-are-exact",
		Rule:  "Arguments reach the program as they are; no shell looks at them.",
		needs: needShell,
		run:   argumentsAreExact,
	}, {
		Name:  "streams-can-be-reopened",
		Rule:  "A command may open its streams again by name.",
		needs: needShell | needProc,
		run:   streamsCanBeReopened,
	}}
}

func noInputIsAnEmptyOne(s *subject) {
	s.completed(s.run(cat(), readLine(), countInput()), 0, "got:\n0\n", "")
}

func inputEnds(s *subject) {
	cmd := s.command(countInput(), sleep(20*time.Millisecond), print("tail"))
	cmd.Stdin = bytes.NewReader(make([]byte, 1<<20))
	s.completed(s.runCommand(cmd), 0, "1048576\ntail", "")
}

func inputComesAsItIsWritten(s *subject) {
	r, w := io.Pipe()
	defer w.Close()
	cmd := s.command(readLine(), readLine())
	cmd.Stdin = r
	e, stream := s.follow(cmd)
	defer stream.Close()
	for _, line := range []string{"one", "two"} {
		fmt.Fprintln(w, line)
		s.same("the answer", string(s.next(stream).Data), "got:"+line+"\n")
	}
	s.completed(s.wait(e), 0, "got:one\ngot:two\n", "")
}

func unreadInputIsNoError(s *subject) {
	cmd := s.command(print("on"))
	cmd.Stdin = bytes.NewReader(make([]byte, 10<<20))
	s.completed(s.runCommand(cmd), 0, "on", "")
	r, w := io.Pipe()
	defer w.Close()
	cmd.Stdin = r
	rec := s.runCommand(cmd)
	s.completed(rec, 0, "on", "")
	s.prompt("the command", rec.Duration, 0)
}

func aFailingInputEnds(s *subject) {
	for _, rest := range []io.Reader{failing{}, panicking{}} {
		cmd := s.command(countInput())
		cmd.Stdin = io.MultiReader(strings.NewReader("12345"), rest)
		rec := s.runCommand(cmd)
		s.completed(rec, 0, "5\n", "")
		if rec.StdinErr == nil {
			s.Errorf("after an input that is %T the record has no StdinErr, want one", rest)
		}
	}
}

func inputAndOutputDoNotLock(s *subject) {
	cmd := s.command(cat())
	cmd.Stdin = strings.NewReader(numbered(1_500_000).all())
	e, stream := s.follow(cmd)
	defer stream.Close()
	s.held(e)
	data, _ := s.readAll(stream)
	s.same("stdout", data[0], numbered(1_500_000).all())
}

func lateInputIsWhole(s *subject) {
	late := 20 * time.Second // longer than a connection that was closed is kept
	if !s.h.Bubble {
		late = full(late, time.Second)
	}
	cmd := s.command(sleep(late), cat())
	cmd.Stdin = strings.NewReader(numbered(100_000).all())
	s.completed(s.runCommand(cmd), 0, numbered(100_000).all(), "")
}

func everyBytePasses(s *subject) {
	random := make([]byte, 100_000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	cmd := s.command(cat())
	cmd.Stdin = bytes.NewReader(random)
	s.completed(s.runCommand(cmd), 0, string(random), "")
}

func inputIsNotTheScript(s *subject) {
	cmd := s.command(readLine(), print("second\n"), readLine())
	cmd.Stdin = strings.NewReader("a\nb\n")
	s.completed(s.runCommand(cmd), 0, "got:a\nsecond\ngot:b\n", "")
}

func theVariablesOfACommandWin(s *subject) {
	cfg := sandbox.Config{}
	if s.h.Config != nil {
		cfg = *s.h.Config
	}
	cfg.Env = map[string]string{"OF_SANDBOX": "1", "OF_BOTH": "sandbox"}
	sb := s.newSandboxIn(s.backend, &cfg)
	defer s.closing("the other sandbox", sb.Close)
	cmd := s.command(printVar("OF_SANDBOX"), printVar("OF_BOTH"), printVar("OF_COMMAND"), printVar("OF_NOBODY"))
	cmd.Env = map[string]string{"OF_BOTH": "command", "OF_COMMAND": "a\n$HOME 'b' \"c\" = \xff"}
	s.completed(s.in(sb).runCommand(cmd), 0, "1\ncommand\na\n$HOME 'b' \"c\" = \xff\n\n", "")
}

func longTextRuns(s *subject) {
	for _, size := range []int{200_000, 1 << 20} {
		const begin, end = "x='", "'; echo ${#x} $# $0; cat"
		fill := size - len(begin) - len(end)
		cmd := sandbox.Command{Shell: begin + strings.Repeat("x", fill) + end, Stdin: strings.NewReader("input")}
		s.completed(s.runCommand(cmd), 0, fmt.Sprintf("%d 0 sh\ninput", fill), "")
	}
	s.completed(s.runCommand(sandbox.Command{
		Shell: "echo ${#BIG}",
		Env:   map[string]string{"BIG": strings.Repeat("x", 100_000)},
	}), 0, "100000\n", "")
	large := make(map[string]string)
	for i := range 15 {
		large[fmt.Sprintf("BIG%d", i)] = strings.Repeat("x", 120_000)
	}
	s.completed(s.runCommand(sandbox.Command{Shell: "echo ${#BIG14}", Env: large}), 0, "120000\n", "")
}

func textMeansWhatTheShellSays(s *subject) {
	for text, want := range map[string]string{
		"cat <<'E'\n$HOME \\ `x`\nE\n":            "$HOME \\ `x`\n",
		"cat <<E\n$((1+1))\nE\n":                  "2\n",
		`printf '%s|' "a b" 'c"d' e\ f "$0"`:      `a b|c"d|e f|sh|`,
		"if true\nthen\n\techo in\nfi\necho out":  "in\nout\n",
		"printf '%s' 'a\r\nb'":                    "a\r\nb",
		"echo a \\\n\tb # no more\n":              "a b\n",
		"echo \"$#\"":                             "0\n",
		"f() { echo \"$1-$2\"; }; f 'x  y' '*.c'": "x  y-*.c\n",
		"printf '%s' 'é€\U0001F600'":              "é€\U0001F600",
		"-x 2>/dev/null; echo $?":                 "127\n",
	} {
		rec := s.shell(text)
		if rec.Stdout.String() != want || *rec.ExitCode != 0 {
			s.Errorf("%q: want %q, got %s", text, want, describe(rec))
		}
	}
}

func argumentsAreExact(s *subject) {
	cmd := sandbox.Command{Argv: []string{"printf", "%s|", "", "a b", "$HOME", "*", "'", "\xff\n"}}
	s.completed(s.runCommand(cmd), 0, "|a b|$HOME|*|'|\xff\n|", "")
}

func streamsCanBeReopened(s *subject) {
	rec := s.shell("echo a >/dev/stdout; echo b >/dev/stderr; echo c >/proc/self/fd/1; printf d | cat /dev/stdin")
	s.completed(rec, 0, "a\nc\nd", "b\n")
}

// failing is an input that cannot be read.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("no more") }

// panicking is an input whose reading panics.
type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("the input") }
