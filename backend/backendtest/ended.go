package backendtest

import (
	"errors"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// endedCases are about how a command ended.
func endedCases() []Case {
	return []Case{{
		Name: "every-exit-code-is-told",
		Rule: "A command that exits with n is completed, with exit code n, for every n from 0 to 255.",
		run:  everyExitCodeIsTold,
	}, {
		Name: "a-signal-is-not-an-exit",
		Rule: "A command that a signal n ends is completed with 128+n, and Signal says which, so that exit 137 and a SIGKILL differ.",
		run:  aSignalIsNotAnExit,
	}, {
		Name:  "a-kill-for-memory-is-told",
		Rule:  "A command that the kernel kills for memory is completed with 137 and OOMKilled; where it was a child's lot, the command's own exit stands and Usage.OOMKills counts it.",
		needs: needOOM,
		run:   aKillForMemoryIsTold,
	}, {
		Name: "a-timeout-is-told-apart",
		Rule: "A command whose time is up is timeout with 124; one that exits with 124 by itself is completed.",
		run:  aTimeoutIsToldApart,
	}, {
		Name: "timeout-keeps-the-output",
		Rule: "After a timeout the output up to then is kept.",
		run:  timeoutKeepsTheOutput,
	}, {
		Name: "cancel-keeps-the-output",
		Rule: "A cancelled command has no exit code; its output up to then is kept, and a reader gets it with the end.",
		run:  cancelKeepsTheOutput,
	}, {
		Name: "an-asked-for-kill-wins",
		Rule: "A kill that was asked for wins over whatever the command then did, so no race shows: cancelled has no exit code, completed has the command's own.",
		run:  anAskedForKillWins,
	}, {
		Name: "a-thousand-with-children",
		Rule: "Commands that run side by side and leave children each get their own exit: nobody reaps another's child.",
		run:  aThousandWithChildren,
	}, {
		Name: "duration-is-measured",
		Rule: "Duration is from start to finish by the monotonic clock.",
		run:  durationIsMeasured,
	}, {
		Name:  "a-lost-sandbox-invents-nothing",
		Rule:  "When the sandbox dies, what runs there is failed with an unknown outcome, never with an exit code, and a start says that the sandbox is gone, not that an outcome is unknown.",
		needs: needLose,
		run:   aLostSandboxInventsNothing,
	}}
}

func everyExitCodeIsTold(s *subject) {
	for code := range 256 {
		s.completed(s.run(exit(code)), code, "", "")
	}
}

func aSignalIsNotAnExit(s *subject) {
	exited := s.run(exit(137))
	s.completed(exited, 137, "", "")
	if exited.Signal != 0 {
		s.Errorf("a command that exited has signal %v, want none", exited.Signal)
	}
	for _, sig := range []backend.Signal{backend.SIGKILL, backend.SIGTERM, backend.SIGUSR1} {
		rec := s.run(die(sig))
		s.completed(rec, 128+int(sig), "", "")
		if rec.Signal != sig || rec.OOMKilled {
			s.Errorf("want signal %v, got %s, killed for memory %v", sig, describe(rec), rec.OOMKilled)
		}
	}
}

func aKillForMemoryIsTold(s *subject) {
	cfg := backend.Config{}
	if s.h.Config != nil {
		cfg = *s.h.Config
	}
	cfg.Limits.Memory = 64 << 20
	sb := s.newSandboxIn(s.backend, &cfg)
	defer s.closing("the small sandbox", sb.Close)
	small := s.in(sb)
	rec := small.run(eat())
	s.ended(rec, sandbox.Completed, 137)
	if !rec.OOMKilled || rec.Signal != backend.SIGKILL {
		s.Errorf("killed for memory %v, %s; want true and signal %v", rec.OOMKilled, describe(rec), backend.SIGKILL)
	}
	rec = small.run(spawn(eat()), wait(), exit(3))
	s.ended(rec, sandbox.Completed, 3)
	if rec.OOMKilled || rec.Usage == nil || rec.Usage.OOMKills == 0 {
		s.Errorf("a child was killed for memory: got OOMKilled %v, usage %+v; want false and a count", rec.OOMKilled, rec.Usage)
	}
}

func aTimeoutIsToldApart(s *subject) {
	s.completed(s.run(exit(124)), 124, "", "")
	cmd := s.command(sleep(long))
	cmd.Timeout = 200 * time.Millisecond
	rec := s.runCommand(cmd)
	s.ended(rec, sandbox.TimedOut, sandbox.TimeoutExitCode)
	s.prompt("the command", rec.Duration, cmd.Timeout)
}

func timeoutKeepsTheOutput(s *subject) {
	cmd := s.command(print("a\n"), printErr("b\n"), sleep(long), print("c\n"))
	cmd.Timeout = 500 * time.Millisecond
	rec := s.runCommand(cmd)
	s.ended(rec, sandbox.TimedOut, sandbox.TimeoutExitCode)
	s.printed(rec, "a\n", "b\n")
}

func cancelKeepsTheOutput(s *subject) {
	e, stream := s.follow(s.command(print("a"), sleep(long)))
	defer stream.Close()
	s.eventually("output has come", func() bool { return e.Execution().Stdout.Total == 1 })
	rec := s.cancel(e)
	s.ended(rec, sandbox.Cancelled, none)
	s.printed(rec, "a", "")
	data, _ := s.readAll(stream)
	s.same("the reader's output", data[0], "a")
}

func anAskedForKillWins(s *subject) {
	for i := range full(500, 30) {
		e := s.start(s.command(exit(3)))
		if i%2 == 0 {
			time.Sleep(time.Duration(i%10) * time.Millisecond)
		}
		if err := e.Cancel(s.ctx); err != nil {
			s.Errorf("cancel: %v", err)
		}
		if rec := s.wait(e); rec.Status == sandbox.Cancelled {
			s.ended(rec, sandbox.Cancelled, none)
		} else {
			s.completed(rec, 3, "", "")
		}
	}
	cmd := s.command(await(backend.SIGTERM, "ready"))
	cmd.Grace = long
	e, stream := s.follow(cmd)
	defer stream.Close()
	s.next(stream)
	s.ended(s.cancel(e), sandbox.Cancelled, none)
}

func aThousandWithChildren(s *subject) {
	var g errgroup.Group
	g.SetLimit(8)
	for i := range full(1000, 64) {
		g.Go(func() error {
			code := i % 256
			rec, err := s.Run(s.ctx, s.command(spawn(sleep(10*time.Millisecond)), spawnRedirected(spawn(exit(9))), exit(code)))
			if err != nil {
				return err
			}
			s.completed(rec, code, "", "")
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		s.Errorf("run: %v", err)
	}
}

func durationIsMeasured(s *subject) {
	begin := time.Now()
	rec := s.run(sleep(100 * time.Millisecond))
	took := time.Since(begin)
	if rec.Duration < 100*time.Millisecond || rec.Duration > took {
		s.Errorf("a command of 100ms in a call of %v has duration %v, want one between them", took, rec.Duration)
	}
	if rec.StartedAt.Before(begin) || rec.FinishedAt.Sub(rec.StartedAt) != rec.Duration {
		s.Errorf("started %v, finished %v, duration %v; want a start after %v and what lies between", rec.StartedAt, rec.FinishedAt, rec.Duration, begin)
	}
}

func aLostSandboxInventsNothing(s *subject) {
	e, stream := s.follow(s.command(print("a"), sleep(long)))
	defer stream.Close()
	s.next(stream)
	p := s.process(io.Discard, sleep(long))
	s.h.Lose(s, s.backend, s.ID())
	rec := s.wait(e)
	if rec.Status != sandbox.Failed || rec.ExitCode != nil || !errors.Is(rec.Err, sandbox.ErrLost) {
		s.Errorf("got %s, error %v; want failed, no exit code, %v", describe(rec), rec.Err, sandbox.ErrLost)
	}
	s.printed(rec, "a", "")
	if _, err := stream.Next(s.ctx); !errors.Is(err, sandbox.ErrLost) {
		s.Errorf("the stream ends with %v, want %v", err, sandbox.ErrLost)
	}
	if exit, err := p.Exit(); err == nil {
		s.Errorf("the driver has made up an exit: %+v", exit)
	}
	<-s.instance.Gone() // the driver's own, which package sandbox may not have noticed
	if _, err := s.instance.Start(s.ctx, s.spec(io.Discard, exit(0))); !errors.Is(err, backend.ErrGone) {
		s.Errorf("the driver's start in a sandbox that is gone: got %v, want %v", err, backend.ErrGone)
	}
	if _, err := s.Start(s.ctx, s.command(exit(0))); !errors.Is(err, sandbox.ErrGone) {
		s.Errorf("start in a sandbox that is gone: %v", err)
	}
	sb := s.newSandbox()
	defer s.closing("the other sandbox", sb.Close)
	s.completed(s.in(sb).run(exit(0)), 0, "", "")
}
