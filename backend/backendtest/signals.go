package backendtest

import (
	"errors"
	"os"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// signalCases are about signals that a command is sent.
func signalCases() []Case {
	return []Case{{
		Name: "every-signal-arrives",
		Rule: "Any signal can be sent, and the record says which ended the command.",
		run:  everySignalArrives,
	}, {
		Name: "a-signal-reaches-the-group",
		Rule: "A signal goes to the command and to what it started in its process group.",
		run:  aSignalReachesTheGroup,
	}, {
		Name: "a-signal-reaches-nobody-else",
		Rule: "A signal reaches neither other executions, nor what earlier ones left running.",
		run:  aSignalReachesNobodyElse,
	}, {
		Name:  "a-signal-stays-in-its-session",
		Rule:  "A signal does not reach what the command started in a session of its own.",
		needs: needSupervisor,
		run:   aSignalStaysInItsSession,
	}, {
		Name:  "a-command-can-be-stopped",
		Rule:  "SIGSTOP stops the command and SIGCONT lets it go on; a stopped one can be killed.",
		needs: needShell,
		run:   aCommandCanBeStopped,
	}, {
		Name: "what-is-left-takes-no-signal",
		Rule: "When the command has ended a signal is os.ErrProcessDone, also while what it left running still holds the output, and reaches nobody.",
		run:  whatIsLeftTakesNoSignal,
	}}
}

func everySignalArrives(s *subject) {
	for _, sig := range []backend.Signal{
		backend.SIGHUP, backend.SIGINT, backend.SIGKILL, backend.SIGUSR1, backend.SIGUSR2,
		backend.SIGALRM, backend.SIGTERM, 40, 64,
	} {
		e, stream := s.follow(s.command(print("on"), sleep(long)))
		s.next(stream)
		// A shell that forks just then may not heed the first one.
		s.eventually("it ends", func() bool { return errors.Is(e.Signal(s.ctx, sig), os.ErrProcessDone) })
		rec := s.wait(e)
		s.completed(rec, 128+int(sig), "on", "")
		if rec.Signal != sig {
			s.Errorf("%v arrived as %v, want it as it was", sig, rec.Signal)
		}
		stream.Close()
	}
}

func aSignalReachesTheGroup(s *subject) {
	e, stream := s.follow(s.command(
		spawn(await(backend.SIGUSR1, "c"), appendTo("child")),
		await(backend.SIGUSR1, "p"), appendTo("parent"), wait(), exit(3)))
	defer stream.Close()
	for ready := 0; ready < 2; {
		ready += len(s.next(stream).Data)
	}
	s.signal(e, backend.SIGUSR1)
	s.ended(s.wait(e), sandbox.Completed, 3)
	if child, parent := s.size("child"), s.size("parent"); child != 1 || parent != 1 {
		s.Errorf("the signal came to the child %d times and to the parent %d times, want once", child, parent)
	}
}

func aSignalReachesNobodyElse(s *subject) {
	server := s.command(spawn(beat("server")))
	server.Wait = sandbox.WaitExit
	s.ended(s.runCommand(server), sandbox.Completed, 0)
	other := s.start(s.command(beat("other")))
	e := s.start(s.command(beat("a")))
	s.beats("server", "other", "a")
	s.signal(e, backend.SIGUSR1)
	s.ended(s.wait(e), sandbox.Completed, 128+int(backend.SIGUSR1))
	s.rests("a")
	s.beats("server", "other")
	s.ended(s.cancel(other), sandbox.Cancelled, none)
}

func aSignalStaysInItsSession(s *subject) {
	e := s.start(s.command(spawnSession(beat("apart")), beat("a")))
	s.beats("apart", "a")
	s.signal(e, backend.SIGUSR1)
	s.comesToRest("a")
	s.beats("apart")
	s.ended(s.cancel(e), sandbox.Cancelled, none)
	s.rests("apart")
}

func aCommandCanBeStopped(s *subject) {
	e := s.start(s.command(spawn(beat("a")), beat("b")))
	s.beats("a", "b")
	s.signal(e, backend.SIGSTOP)
	s.comesToRest("a", "b")
	s.signal(e, backend.SIGCONT)
	s.beats("a", "b")
	s.signal(e, backend.SIGSTOP)
	s.ended(s.cancel(e), sandbox.Cancelled, none)
	s.rests("a", "b")
}

func whatIsLeftTakesNoSignal(s *subject) {
	e := s.start(s.command(spawn(beat("a")), exit(5)))
	s.beats("a")
	s.eventually("a signal is refused", func() bool { return errors.Is(e.Signal(s.ctx, backend.SIGCONT), os.ErrProcessDone) })
	if err := e.Signal(s.ctx, backend.SIGUSR1); !errors.Is(err, os.ErrProcessDone) {
		s.Errorf("signal: %v", err)
	}
	s.beats("a")
	s.ended(s.cancel(e), sandbox.Cancelled, none)
	if err := e.Signal(s.ctx, backend.SIGCONT); !errors.Is(err, os.ErrProcessDone) {
		s.Errorf("signal when it is over: %v", err)
	}
}

func (s *subject) signal(e sandbox.Exec, sig backend.Signal) {
	s.Helper()
	if err := e.Signal(s.ctx, sig); err != nil {
		s.Errorf("%v: %v", sig, err)
	}
}
