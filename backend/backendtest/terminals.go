package backendtest

import (
	"errors"
	"os"
	"strings"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// terminalCases are about commands on a terminal.
func terminalCases() []Case {
	return []Case{{
		Name:  "a-terminal-is-one-stream",
		Rule:  "On a terminal both outputs are stdout, with CRLF for a newline; TERM is xterm-256color unless the command says it, and not set elsewhere.",
		needs: needTerminal,
		run:   aTerminalIsOneStream,
	}, {
		Name:  "a-terminal-has-a-size",
		Rule:  "A terminal has the size that was asked for, 24 rows and 80 columns for a side of 0, from the start on; a new size is told by SIGWINCH.",
		needs: needTerminal,
		run:   aTerminalHasASize,
	}, {
		Name:  "a-process-on-a-terminal-is-a-resizer",
		Rule:  "Every Process of a Spec with a Terminal is a Resizer, whose error wraps os.ErrProcessDone when the command has ended.",
		needs: needTerminal,
		run:   aProcessOnATerminalIsAResizer,
	}, {
		Name:  "a-terminal-echoes",
		Rule:  "What is typed is shown, and comes as a line to the command, whether it ended with CR, as the key has it, or with a newline.",
		needs: needTerminal,
		run:   aTerminalEchoes,
	}, {
		Name:  "the-end-of-a-terminals-input",
		Rule:  "The end of a terminal's input is typed as its eof character: what reads it comes to an end, whether the last line was ended or not.",
		needs: needTerminal,
		run:   theEndOfATerminalsInput,
	}, {
		Name:  "any-terminals-input-ends",
		Rule:  "CloseStdin types the eof character that the terminal has; one that reads keys instead of lines, or has no such character, is hung up. The program reads nothing that was not written.",
		needs: needTerminal | needShell,
		run:   anyTerminalsInputEnds,
	}, {
		Name:  "ctrl-c-interrupts",
		Rule:  "Ctrl-C sends SIGINT to the foreground process group.",
		needs: needTerminal,
		run:   ctrlCInterrupts,
	}, {
		Name:  "the-last-output-is-not-lost",
		Rule:  "What a command prints on a terminal just before it ends arrives.",
		needs: needTerminal,
		run:   theLastOutputIsNotLost,
	}, {
		Name:  "a-terminal-carries-all",
		Rule:  "Output of any length on a terminal is exact, and waits for its reader.",
		needs: needTerminal,
		run:   aTerminalCarriesAll,
	}, {
		Name:  "a-hang-up-ends-what-is-left",
		Rule:  "What still holds the terminal when the execution is over is sent SIGHUP; what ignores that stays.",
		needs: needTerminal,
		run:   aHangUpEndsWhatIsLeft,
	}, {
		Name:  "a-kill-ends-all-on-a-terminal",
		Rule:  "A kill ends everything that a command on a terminal has started, whatever it ignores; what was printed before is kept.",
		needs: needTerminal,
		run:   aKillEndsAllOnATerminal,
	}}
}

func aTerminalIsOneStream(s *subject) {
	steps := []step{printVar("TERM"), print("out\n"), printErr("err\r\n"), print("a\tb")}
	cmd := s.terminal(steps...)
	s.completed(s.runCommand(cmd), 0, "xterm-256color\r\nout\r\nerr\r\r\na\tb", "")
	cmd.Env = map[string]string{"TERM": "dumb"}
	s.completed(s.runCommand(cmd), 0, "dumb\r\nout\r\nerr\r\r\na\tb", "")
	s.completed(s.run(steps...), 0, "\nout\na\tb", "err\r\n")
}

func aTerminalHasASize(s *subject) {
	for want, size := range map[string]sandbox.TerminalSize{
		"24 80": {}, "24 132": {Cols: 132}, "50 80": {Rows: 50}, "2 500": {Rows: 2, Cols: 500},
	} {
		cmd := s.terminal(terminalSize())
		cmd.Terminal = &size
		s.completed(s.runCommand(cmd), 0, want+"\r\n", "")
	}
	t := s.open(s.terminal(await(backend.SIGWINCH, "ready "), terminalSize()))
	t.shows("ready ")
	if err := t.exec.Resize(t.ctx, sandbox.TerminalSize{Rows: 50}); err != nil {
		s.Errorf("resize: %v", err)
	}
	s.completed(t.ends(), 0, "ready 50 80\r\n", "")
	if err := t.exec.Resize(t.ctx, sandbox.TerminalSize{}); !errors.Is(err, os.ErrProcessDone) {
		s.Errorf("resize when it is over: %v", err)
	}
}

func aProcessOnATerminalIsAResizer(s *subject) {
	spec := s.spec(&guarded{}, exit(3))
	spec.Terminal = &backend.TerminalSize{}
	p, err := s.instance.Start(s.ctx, spec)
	if err != nil {
		s.Fatalf("start: %v", err)
	}
	if exit, err := p.Exit(); err != nil || exit.Code != 3 {
		s.Errorf("exit: got %+v, %v; want code 3", exit, err)
	}
	<-p.OutputOver()
	if r, ok := p.(backend.Resizer); !ok {
		s.Errorf("the process is no Resizer")
	} else if err := r.Resize(s.ctx, backend.TerminalSize{}); !errors.Is(err, os.ErrProcessDone) {
		s.Errorf("resize after the end: %v", err)
	}
}

func aTerminalEchoes(s *subject) {
	t := s.open(s.terminal(readLine(), readLine()))
	t.types("one\r")
	t.shows("got:one\r\n")
	t.types("two\n")
	s.completed(t.ends(), 0, "one\r\ngot:one\r\ntwo\r\ngot:two\r\n", "")
}

func theEndOfATerminalsInput(s *subject) {
	for typed, want := range map[string]string{"line\n": "line\r\nline\r\n", "no end": "no endno end", "": ""} {
		cmd := s.terminal(cat())
		cmd.Stdin = strings.NewReader(typed)
		e := s.start(cmd)
		if err := e.CloseStdin(s.ctx); err != nil {
			s.Errorf("close of the input: %v", err)
		}
		s.completed(s.wait(e), 0, want, "")
	}
}

func anyTerminalsInputEnds(s *subject) {
	for _, test := range []struct{ set, rest, want string }{
		{"stty -echo eof ^X", "wc -c <got", "ready2\r\n"},
		{"trap '' HUP; stty -echo eof undef", "exit 0", "ready"},
		{"trap '' HUP; stty raw -echo", "exit 0", "ready"},
		{"trap '' HUP; stty -icanon -echo", "exit 0", "ready"},
	} {
		e, stream := s.follow(sandbox.Command{
			Shell:    "rm -f got; " + test.set + "; printf ready; tee got >/dev/null; " + test.rest,
			Terminal: &sandbox.TerminalSize{}, OpenStdin: true,
		})
		s.next(stream)
		stream.Close()
		s.write(e, "a\n")
		s.eventually("the input is read", func() bool { return s.size("got") == 2 })
		if err := e.CloseStdin(s.ctx); err != nil {
			s.Errorf("close of the input: %v", err)
		}
		s.completed(s.wait(e), 0, test.want, "")
		if n := s.size("got"); n != 2 {
			s.Errorf("after %q the program read %d bytes, want 2", test.set, n)
		}
	}
}

func ctrlCInterrupts(s *subject) {
	t := s.open(s.terminal(print("on "), beat("a")))
	t.shows("on ")
	s.beats("a")
	t.types("\x03")
	rec := t.ends()
	s.ended(rec, sandbox.Completed, 128+int(backend.SIGINT))
	if out := rec.Stdout.String(); out != "on ^C" && out != "on \x03" { // some kernels echo it as it is
		s.Errorf("the terminal shows %q, want %q", out, "on ^C")
	}
	if rec.Signal != backend.SIGINT {
		s.Errorf("it was ended by %v, want %v", rec.Signal, backend.SIGINT)
	}
	s.rests("a")
}

func theLastOutputIsNotLost(s *subject) {
	want := strings.ReplaceAll(numbered(1200).all(), "\n", "\r\n") + "end"
	cmd := s.terminal(lines(1200), print("end"), exit(7))
	for range full(1000, 40) {
		s.completed(s.runCommand(cmd), 7, want, "")
		if s.Failed() {
			return
		}
	}
}

func aTerminalCarriesAll(s *subject) {
	const n = 150_000
	e, stream := s.follow(s.terminal(lines(n), print("end")))
	defer stream.Close()
	s.held(e)
	data, gaps := s.readAll(stream)
	s.same("stdout", data[0], strings.ReplaceAll(numbered(n).all(), "\n", "\r\n")+"end")
	if gaps[0] != 0 {
		s.Errorf("got a gap of %d, want none", gaps[0])
	}
	s.ended(s.wait(e), sandbox.Completed, 0)
}

func aHangUpEndsWhatIsLeft(s *subject) {
	cmd := s.terminal(spawn(beat("a")), print("x"))
	cmd.Wait = sandbox.WaitExit
	s.completed(s.runCommand(cmd), 0, "x", "")
	s.rests("a")
	cmd = s.terminal(ignoreTerm(), spawn(beat("b")), print("x"))
	cmd.Wait = sandbox.WaitExit
	s.completed(s.runCommand(cmd), 0, "x", "")
	s.beats("b")
}

func aKillEndsAllOnATerminal(s *subject) {
	cmd := s.terminal(ignoreTerm(), print("x\n"), spawn(spawn(beat("a"))), spawnRedirected(beat("b")), beat("c"))
	e := s.start(cmd)
	s.beats("a", "b", "c")
	rec := s.cancel(e)
	s.ended(rec, sandbox.Cancelled, none)
	s.printed(rec, "x\r\n", "")
	s.rests("a", "b", "c")
	cmd.Timeout = 2 * restTime
	s.ended(s.runCommand(cmd), sandbox.TimedOut, sandbox.TimeoutExitCode)
	s.rests("a", "b", "c")
}

// terminal makes a command of steps on a terminal.
func (s *subject) terminal(steps ...step) sandbox.Command {
	cmd := s.command(steps...)
	cmd.Terminal = &sandbox.TerminalSize{}
	return cmd
}

// A screen is a terminal as a person sits at it.
type screen struct {
	*subject
	exec   sandbox.Exec
	stream sandbox.Stream
	text   string // that came since the last thing that was waited for
}

// open starts a command on a terminal.
func (s *subject) open(cmd sandbox.Command) *screen {
	s.Helper()
	e, stream := s.follow(cmd)
	return &screen{subject: s, exec: e, stream: stream}
}

func (t *screen) types(keys string) {
	t.Helper()
	t.write(t.exec, keys)
}

// shows waits until text comes.
func (t *screen) shows(text string) {
	t.Helper()
	all := t.text
	for {
		if _, rest, ok := strings.Cut(t.text, text); ok {
			t.text = rest
			return
		}
		c, err := t.stream.Next(t.ctx)
		if err != nil {
			t.Fatalf("the terminal does not show %q: %v; it shows %q", text, err, all)
		}
		t.text += string(c.Data)
		all += string(c.Data)
	}
}

// ends waits for the end.
func (t *screen) ends() *sandbox.Execution {
	t.Helper()
	defer t.stream.Close()
	for {
		if _, err := t.stream.Next(t.ctx); err != nil {
			return t.wait(t.exec)
		}
	}
}
