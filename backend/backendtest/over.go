package backendtest

import (
	"strings"
	"time"

	"github.com/sandbox-go/sandbox"
)

// pipeful is more than readers may be behind, so that a command whose output is not
// read leaves some of it in the pipe, and so little more that it is not held.
const pipeful = 310 << 10

// overCases are about when an execution is over.
func overCases() []Case {
	return []Case{{
		Name: "output-is-waited-for",
		Rule: "Under WaitOutput an execution is over when the command has exited and nothing that it started still holds its output.",
		run:  outputIsWaitedFor,
	}, {
		Name: "exit-is-waited-for",
		Rule: "Under WaitExit an execution is over when the command itself exits, with all it had written.",
		run:  exitIsWaitedFor,
	}, {
		Name: "exit-delivers-full-pipes",
		Rule: "Under WaitExit exactly the bytes that are in the pipes when the command exits are delivered, to the record and to readers.",
		run:  exitDeliversFullPipes,
	}, {
		Name: "timeout-covers-the-output",
		Rule: "The timeout covers the whole wait: a command that has exited, and whose output is still held, ends as timeout with 124 and its output.",
		run:  timeoutCoversTheOutput,
	}, {
		Name: "late-output-is-not-cut",
		Rule: "Under WaitOutput what background processes write long after the exit arrives, however long they pause.",
		run:  lateOutputIsNotCut,
	}, {
		Name: "redirected-output-holds-nothing",
		Rule: "A background process that redirected its output does not hold the execution, under either way of waiting; it goes on until the sandbox is closed.",
		run:  redirectedOutputHoldsNothing,
	}, {
		Name: "a-left-over-may-go-on-writing",
		Rule: "After WaitExit the later output of what was left running is dropped at the source: it never blocks the writer and never gets it a SIGPIPE.",
		run:  aLeftOverMayGoOnWriting,
	}, {
		Name: "a-left-over-flood-holds-nothing",
		Rule: "Under WaitExit an execution is over when the command exits and its output is read, whatever a background process goes on writing.",
		run:  aLeftOverFloodHoldsNothing,
	}, {
		Name: "a-server-stays",
		Rule: "What an execution left running stays in the sandbox, and later executions can talk to it.",
		run:  aServerStays,
	}, {
		Name: "a-sleeping-child-holds-no-timeout",
		Rule: "At its deadline an execution is back, whatever its children wait for.",
		run:  aSleepingChildHoldsNoTimeout,
	}, {
		Name:  "a-stranger-holds-nothing",
		Rule:  "Output is over when nothing of the command is left, even when another process of the sandbox holds the pipe; a kill does not wait for it either.",
		needs: needShell | needProc | needSupervisor,
		run:   aStrangerHoldsNothing,
	}}
}

func outputIsWaitedFor(s *subject) {
	rec := s.run(spawn(sleep(300*time.Millisecond)), print("hi\n"), exit(4))
	s.completed(rec, 4, "hi\n", "")
	s.prompt("the command", rec.Duration, 300*time.Millisecond)
}

func exitIsWaitedFor(s *subject) {
	cmd := s.command(spawn(sleep(long)), print("hi\n"), exit(4))
	cmd.Wait = sandbox.WaitExit
	rec := s.runCommand(cmd)
	s.completed(rec, 4, "hi\n", "")
	s.prompt("the command", rec.Duration, 0)
}

func exitDeliversFullPipes(s *subject) {
	cmd := s.command(spawn(sleep(long)), printErr("begin"), zeros(pipeful), exit(3))
	cmd.Wait = sandbox.WaitExit
	want := strings.Repeat("\x00", pipeful)
	s.completed(s.runCommand(cmd), 3, want, "begin")
	e, stream := s.follow(cmd)
	defer stream.Close()
	s.held(e)
	data, _ := s.readAll(stream)
	s.same("stdout", data[0], want)
	s.same("stderr", data[1], "begin")
	s.completed(s.wait(e), 3, want, "begin")
}

func timeoutCoversTheOutput(s *subject) {
	cmd := s.command(spawn(beat("beat")), print("hi\n"))
	cmd.Timeout = 500 * time.Millisecond
	rec := s.runCommand(cmd)
	s.ended(rec, sandbox.TimedOut, sandbox.TimeoutExitCode)
	s.printed(rec, "hi\n", "")
	s.prompt("the command", rec.Duration, cmd.Timeout)
	s.rests("beat")
}

func lateOutputIsNotCut(s *subject) {
	rec := s.run(
		spawn(sleep(200*time.Millisecond), print("one\n"), sleep(2200*time.Millisecond), print("three\n")),
		print("now\n"))
	s.completed(rec, 0, "now\none\nthree\n", "")
}

func redirectedOutputHoldsNothing(s *subject) {
	for mode, file := range map[sandbox.WaitMode]string{sandbox.WaitOutput: "a", sandbox.WaitExit: "b"} {
		cmd := s.command(spawnRedirected(beat(file)), print("hi\n"))
		cmd.Wait = mode
		rec := s.runCommand(cmd)
		s.completed(rec, 0, "hi\n", "")
		s.prompt("the command", rec.Duration, 0)
	}
	s.beats("a", "b")
}

func aLeftOverMayGoOnWriting(s *subject) {
	cmd := s.command(spawn(sleep(100*time.Millisecond), zeros(1<<20), printErr("more"), appendTo("done")), print("hi\n"))
	cmd.Wait = sandbox.WaitExit
	e := s.start(cmd)
	s.completed(s.wait(e), 0, "hi\n", "")
	s.eventually("the process that was left running has written all", func() bool { return s.size("done") == 1 })
	s.completed(e.Execution(), 0, "hi\n", "")
}

func aLeftOverFloodHoldsNothing(s *subject) {
	cmd := s.command(spawn(forever(zeros(1<<20), appendTo("flood"), sleep(beatTime))), sleep(100*time.Millisecond))
	cmd.Wait = sandbox.WaitExit
	e, stream := s.follow(cmd)
	defer stream.Close()
	s.held(e)
	s.readAll(stream)
	s.ended(s.wait(e), sandbox.Completed, 0)
	s.beats("flood")
}

func aServerStays(s *subject) {
	cmd := s.command(spawn(forever(print("a line of its log\n"), appendTo("served"), sleep(beatTime))))
	cmd.Wait = sandbox.WaitExit
	s.ended(s.runCommand(cmd), sandbox.Completed, 0)
	for range 3 {
		s.beats("served")
	}
}

func aSleepingChildHoldsNoTimeout(s *subject) {
	cmd := s.command(spawn(sleep(long), print("x")), wait(), print("y"))
	cmd.Timeout = 300 * time.Millisecond
	rec := s.runCommand(cmd)
	s.ended(rec, sandbox.TimedOut, sandbox.TimeoutExitCode)
	s.printed(rec, "", "")
	s.prompt("the command", rec.Duration, cmd.Timeout)
}

func aStrangerHoldsNothing(s *subject) {
	const text = "echo $$; while [ ! -e held ]; do sleep 0.02; done; "
	hold := func(text string) (held, holder sandbox.Exec, pid string) {
		s.shell("rm -f held")
		held, stream := s.follow(sandbox.Command{Shell: text, Timeout: soon})
		defer stream.Close()
		pid = strings.TrimSpace(string(s.next(stream).Data))
		holder = s.start(sandbox.Command{Shell: "exec 3>/proc/" + pid + "/fd/1; : >held; sleep 90"})
		return held, holder, pid
	}
	ends, holder, pid := hold(text + "echo end")
	s.completed(s.wait(ends), 0, pid+"\nend\n", "")
	s.ended(s.cancel(holder), sandbox.Cancelled, none)

	killed, holder, _ := hold(text + ": >seen; sleep 90")
	s.eventually("the pipe is held", func() bool { return *s.shell("[ -e seen ]").ExitCode == 0 })
	begin := time.Now()
	s.ended(s.cancel(killed), sandbox.Cancelled, none)
	s.prompt("the kill", time.Since(begin), 0)
	s.ended(s.cancel(holder), sandbox.Cancelled, none)
}
