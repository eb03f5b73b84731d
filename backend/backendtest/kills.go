package backendtest

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// killCases are about what a kill reaches, and what it does not.
func killCases() []Case {
	return []Case{{
		Name: "an-ended-context-kills",
		Rule: "When the context of an execution ends, as with a client that has left, everything is dead within a second and the record is cancelled.",
		run:  anEndedContextKills,
	}, {
		Name: "a-timeout-kills-the-background",
		Rule: "After a timeout everything that the command started is dead.",
		run:  aTimeoutKillsTheBackground,
	}, {
		Name: "a-kill-reaches-deep",
		Rule: "A kill reaches children of children, and those whose parent has ended.",
		run:  aKillReachesDeep,
	}, {
		Name: "a-kill-reaches-an-orphan",
		Rule: "When the command itself has exited and its output is still held, a kill reaches those that hold it.",
		run:  aKillReachesAnOrphan,
	}, {
		Name: "a-grace-is-given",
		Rule: "With a grace SIGTERM comes first, and a command that ends by itself within it may; what it prints then is kept.",
		run:  aGraceIsGiven,
	}, {
		Name: "a-grace-ends",
		Rule: "What ignores SIGTERM is killed when the grace is over.",
		run:  aGraceEnds,
	}, {
		Name: "no-grace-is-no-signal",
		Rule: "Without a grace no SIGTERM is sent: the command gets no chance to act.",
		run:  noGraceIsNoSignal,
	}, {
		Name:  "a-stopped-parent-holds-nobody-up",
		Rule:  "A command that stops its parent, where it may, ends with its timeout all the same: within 10 s of it everything is dead, and the sandbox goes on.",
		needs: needShell | needSupervisor,
		run:   aStoppedParentHoldsNobodyUp,
	}, {
		Name: "others-go-on",
		Rule: "A kill touches neither other executions nor what earlier ones left running.",
		run:  othersGoOn,
	}, {
		Name:  "a-traced-command-dies",
		Rule:  "A command that another execution traces is dead within a second of its kill, though only the tracer sees it end, and no survivor is named, nor a cost made up; no other execution is stopped for it; the tracer goes on, and so does the sandbox.",
		needs: needShell | needTracer,
		run:   aTracedCommandDies,
	}, {
		Name: "a-late-cancel-signals-nobody",
		Rule: "Cancel of an execution that was over long ago does nothing, whatever runs since then; its record stays.",
		run:  aLateCancelSignalsNobody,
	}, {
		Name:  "start-and-cancel-leaves-nothing",
		Rule:  "A command that is cancelled while it starts leaves no process, goroutine or descriptor, and nothing hangs.",
		alone: true,
		run:   startAndCancelLeavesNothing,
	}, {
		Name: "a-cancelled-start-leaves-nothing",
		Rule: "When the context ends while a command starts, nothing of the command is left.",
		run:  aCancelledStartLeavesNothing,
	}, {
		Name: "a-thread-may-exit",
		Rule: "A command is not bound to the thread that started it: when that exits, the command goes on.",
		run:  aThreadMayExit,
	}}
}

func anEndedContextKills(s *subject) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	e, stream, err := s.Follow(ctx, s.command(spawn(beat("a")), beat("b")))
	if err != nil {
		s.Fatalf("follow: %v", err)
	}
	defer stream.Close()
	s.beats("a", "b")
	cancel()
	begin := time.Now()
	s.ended(s.wait(e), sandbox.Cancelled, none)
	s.prompt("the kill", time.Since(begin), 0)
	s.rests("a", "b")
}

func aTimeoutKillsTheBackground(s *subject) {
	cmd := s.command(spawn(beat("a")), spawnRedirected(beat("b"), exit(0)), wait())
	cmd.Timeout = 400 * time.Millisecond
	rec := s.runCommand(cmd)
	s.ended(rec, sandbox.TimedOut, sandbox.TimeoutExitCode)
	s.prompt("the command", rec.Duration, cmd.Timeout)
	s.rests("a", "b")
}

func aKillReachesDeep(s *subject) {
	e := s.start(s.command(
		spawn(spawn(spawn(beat("a"))), spawnRedirected(spawn(beat("b")), exit(0)), exit(0)),
		ignoreTerm(), spawn(beat("c")), sleep(long)))
	s.beats("a", "b", "c")
	s.ended(s.cancel(e), sandbox.Cancelled, none)
	s.rests("a", "b", "c")
}

func aKillReachesAnOrphan(s *subject) {
	e := s.start(s.command(spawn(spawn(beat("a")), exit(0)), print("x")))
	s.beats("a")
	rec := s.cancel(e)
	s.ended(rec, sandbox.Cancelled, none)
	s.printed(rec, "x", "")
	s.rests("a")
}

func aGraceIsGiven(s *subject) {
	cmd := s.command(await(backend.SIGTERM, "ready "), print("bye"), exit(7))
	cmd.Grace = long
	e, stream := s.follow(cmd)
	defer stream.Close()
	s.next(stream)
	begin := time.Now()
	rec := s.cancel(e)
	s.prompt("the kill", time.Since(begin), 0)
	s.ended(rec, sandbox.Cancelled, none)
	s.printed(rec, "ready bye", "")
}

func aGraceEnds(s *subject) {
	cmd := s.command(ignoreTerm(), print("ready"), spawn(beat("a")), beat("b"))
	cmd.Grace = 300 * time.Millisecond
	e := s.start(cmd)
	s.beats("a", "b")
	begin := time.Now()
	rec := s.cancel(e)
	s.prompt("the kill", time.Since(begin), cmd.Grace)
	s.ended(rec, sandbox.Cancelled, none)
	s.printed(rec, "ready", "")
	s.rests("a", "b")
}

func noGraceIsNoSignal(s *subject) {
	e, stream := s.follow(s.command(await(backend.SIGTERM, "ready"), print("bye"), exit(7)))
	defer stream.Close()
	s.next(stream)
	rec := s.cancel(e)
	s.ended(rec, sandbox.Cancelled, none)
	s.printed(rec, "ready", "")
}

func aStoppedParentHoldsNobodyUp(s *subject) {
	beating := s.command(beat("a")).Shell
	cmd := sandbox.Command{Shell: "(" + beating + ") & sleep .1; kill -STOP $PPID 2>/dev/null; sleep 90", Timeout: 500 * time.Millisecond}
	rec := s.runCommand(cmd)
	s.ended(rec, sandbox.TimedOut, sandbox.TimeoutExitCode)
	if late := rec.Duration - cmd.Timeout; late > 10*time.Second {
		s.Errorf("the kill took %v, want at most 10s", late)
	}
	s.rests("a")
	s.completed(s.shell("echo on"), 0, "on\n", "")
}

func othersGoOn(s *subject) {
	server := s.command(spawn(beat("server")), spawnRedirected(beat("daemon")))
	server.Wait = sandbox.WaitExit
	s.ended(s.runCommand(server), sandbox.Completed, 0)
	other := s.start(s.command(spawn(beat("other")), wait()))
	e := s.start(s.command(spawn(beat("a")), wait()))
	s.beats("server", "daemon", "other", "a")
	s.ended(s.cancel(e), sandbox.Cancelled, none)
	s.rests("a")
	s.beats("server", "daemon", "other")
	s.ended(other.Execution(), sandbox.Running, none)
	s.ended(s.cancel(other), sandbox.Cancelled, none)
	s.rests("other")
	s.beats("server", "daemon")
}

func aTracedCommandDies(s *subject) {
	e, stream := s.follow(sandbox.Command{Shell: "echo $$; exec sleep 1000"})
	defer stream.Close()
	pid, err := strconv.Atoi(strings.TrimSpace(string(s.next(stream).Data)))
	if err != nil {
		s.Fatalf("pid: %v", err)
	}
	tracer, said := s.follow(s.h.Tracer(pid))
	defer said.Close()
	if got := string(s.next(said).Data); got != "tracing" {
		s.Fatalf("the tracer says %q, want %q", got, "tracing")
	}
	other := s.start(sandbox.Command{Shell: "trap 'echo >>stopped' CONT; echo >ready; while :; do sleep 0.02; done"})
	s.eventually("the other execution is ready", func() bool { return s.size("ready") > 0 })
	begin := time.Now()
	rec := s.cancel(e)
	took := time.Since(begin)
	s.prompt("the kill", took, 0)
	s.completed(s.shell("sleep 0.2"), 0, "", "") // until the other's trap has run
	if n := s.size("stopped"); n > 0 {
		s.Errorf("another execution was stopped %d times by a kill of %v, want never", n, took)
	}
	s.ended(s.cancel(other), sandbox.Cancelled, none)
	s.ended(rec, sandbox.Cancelled, none)
	if rec.Usage != nil && rec.Usage.MaxRSS == 0 {
		s.Errorf("usage %+v of what nobody could reap, want none", *rec.Usage)
	}
	s.ended(tracer.Execution(), sandbox.Running, none)
	for range 3 {
		s.completed(s.run(print("x")), 0, "x", "")
	}
	s.ended(s.cancel(tracer), sandbox.Cancelled, none)
	s.completed(s.run(print("x")), 0, "x", "")
}

func aLateCancelSignalsNobody(s *subject) {
	var old []sandbox.Exec
	for range 20 {
		e := s.start(s.command(exit(5)))
		s.wait(e)
		old = append(old, e)
	}
	running := s.start(s.command(spawn(beat("a")), beat("b")))
	for _, e := range old {
		s.completed(s.cancel(e), 5, "", "")
	}
	s.beats("a", "b")
	s.ended(running.Execution(), sandbox.Running, none)
	rec := s.cancel(running)
	s.ended(s.cancel(running), sandbox.Cancelled, none)
	s.ended(rec, sandbox.Cancelled, none)
}

func startAndCancelLeavesNothing(s *subject) {
	cmd := s.command(spawnRedirected(beat("beat")), sleep(long))
	var use usage
	for i := range full(1000, 60) {
		if i == 30 {
			use = measure()
		}
		ctx, cancel := context.WithCancel(s.ctx)
		e, err := s.Start(ctx, cmd)
		if err != nil {
			s.Fatalf("start: %v", err)
		}
		if i%2 == 0 {
			cancel()
		} else {
			s.cancel(e)
		}
		s.ended(s.wait(e), sandbox.Cancelled, none)
		cancel()
	}
	s.rests("beat")
	s.flat(use)
}

func aCancelledStartLeavesNothing(s *subject) {
	for i := range full(200, 20) {
		ctx, cancel := context.WithTimeout(s.ctx, time.Duration(i%20)*500*time.Microsecond+1)
		e, err := s.Start(ctx, s.command(spawnRedirected(beat("beat")), sleep(long)))
		if err == nil {
			s.ended(s.wait(e), sandbox.Cancelled, none)
		}
		cancel()
	}
	s.rests("beat")
}

func aThreadMayExit(s *subject) {
	started := make(chan sandbox.Exec, 1)
	go func() {
		defer close(started)
		runtime.LockOSThread() // without unlocking, so that the thread ends with the goroutine
		e, err := s.Start(s.ctx, s.command(spawn(beat("a")), sleep(restTime), exit(6)))
		if err != nil {
			s.Errorf("start: %v", err)
			return
		}
		started <- e
	}()
	e, ok := <-started
	if !ok {
		return
	}
	s.beats("a")
	time.Sleep(2 * restTime)
	s.beats("a")
	s.ended(e.Execution(), sandbox.Running, none)
	s.ended(s.cancel(e), sandbox.Cancelled, none)
}
