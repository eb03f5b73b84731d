package backendtest

import (
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandbox-go/sandbox"
)

// lifeCases are about the life of a sandbox.
func lifeCases() []Case {
	return []Case{{
		Name: "a-closed-sandbox-runs-nothing",
		Rule: "After Close a sandbox is gone, starts nothing, and its records stay; Close may be called again.",
		run:  aClosedSandboxRunsNothing,
	}, {
		Name: "a-close-cancels-a-held-command",
		Rule: "Close cancels what runs, also a command whose output nobody reads, and waits for no reader.",
		run:  aCloseCancelsAHeldCommand,
	}, {
		Name: "a-closed-backend-loses-its-sandboxes",
		Rule: "When a backend is closed, its sandboxes are gone: what ran has failed, with an unknown outcome, and nothing starts.",
		run:  aClosedBackendLosesItsSandboxes,
	}, {
		Name: "commands-run-side-by-side",
		Rule: "Commands of one sandbox run at the same time, each with its own output and end.",
		run:  commandsRunSideBySide,
	}}
}

func aClosedSandboxRunsNothing(s *subject) {
	sb := s.newSandbox()
	other := s.in(sb)
	e := other.start(s.command(print("x")))
	other.wait(e)
	for range 2 {
		s.closing("the sandbox", sb.Close)
	}
	<-sb.Gone()
	if _, err := sb.Start(s.ctx, s.command(exit(0))); !errors.Is(err, sandbox.ErrClosed) {
		s.Errorf("start: %v", err)
	}
	s.completed(s.wait(e), 0, "x", "")
}

func aCloseCancelsAHeldCommand(s *subject) {
	sb := s.newSandbox()
	e, stream := s.in(sb).follow(s.command(zeros(10<<20), sleep(long)))
	defer stream.Close()
	s.held(e)
	begin := time.Now()
	s.closing("the sandbox", sb.Close)
	s.prompt("the close", time.Since(begin), 0)
	s.ended(s.wait(e), sandbox.Cancelled, none)
}

func aClosedBackendLosesItsSandboxes(s *subject) {
	e := s.start(s.command(print("x"), sleep(long)))
	s.eventually("output has come", func() bool { return e.Execution().Stdout.Total == 1 })
	s.closing("the backend", s.backend.Close)
	if rec := s.wait(e); rec.Status != sandbox.Failed || rec.ExitCode != nil || !errors.Is(rec.Err, sandbox.ErrLost) {
		s.Errorf("want failed without an exit code, got %s", describe(rec))
	}
	<-s.Gone()
	if _, err := s.Start(s.ctx, s.command(exit(0))); !errors.Is(err, sandbox.ErrGone) {
		s.Errorf("start: %v", err)
	}
}

func commandsRunSideBySide(s *subject) {
	var g errgroup.Group
	for i := range 12 {
		g.Go(func() error {
			rec, err := s.Run(s.ctx, s.command(lines(1000+i), sleep(restTime), printErr("end"), exit(i)))
			if err != nil {
				return err
			}
			s.completed(rec, i, numbered(1000+i).all(), "end")
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		s.Errorf("run: %v", err)
	}
}
