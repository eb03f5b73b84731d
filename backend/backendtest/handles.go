package backendtest

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandbox-go/sandbox"
)

// handleCases are about commands whose handle is found again, and starts that are
// repeated.
func handleCases() []Case {
	return []Case{{
		Name: "a-handle-is-found-again",
		Rule: "Exec finds an execution by its id, running or recorded; it is the same one, to be read, signalled, written to and cancelled. Execs lists all, oldest first.",
		run:  aHandleIsFoundAgain,
	}, {
		Name: "a-detached-start-is-bounded",
		Rule: "A detached start returns at once; the command outlives the context that it was started with, and ends with its timeout, or with the sandbox.",
		run:  aDetachedStartIsBounded,
	}, {
		Name: "a-key-starts-once",
		Rule: "While an execution of a key is running or recorded, a start of the same key answers with it, however many ask at once; another key is another run.",
		run:  aKeyStartsOnce,
	}}
}

func aHandleIsFoundAgain(s *subject) {
	old := s.start(s.command(print("old"), exit(3)))
	s.wait(old)
	cmd := s.command(print("new"), readLine(), sleep(long))
	cmd.OpenStdin = true
	running := s.start(cmd)
	s.completed(s.wait(s.found(old)), 3, "old", "")
	again := s.found(running)
	stream, err := again.Stream(sandbox.Offsets{})
	if err != nil {
		s.Fatalf("stream: %v", err)
	}
	defer stream.Close()
	s.same("the output so far", string(s.next(stream).Data), "new")
	s.write(again, "line\n")
	s.same("the answer", string(s.next(stream).Data), "got:line\n")
	s.ended(s.cancel(again), sandbox.Cancelled, none)
	s.ended(running.Execution(), sandbox.Cancelled, none)
	var ids []string
	for _, e := range s.Execs() {
		ids = append(ids, e.ID())
	}
	if !slices.Equal(ids, []string{old.ID(), running.ID()}) {
		s.Errorf("executions are %q, want %q and %q", ids, old.ID(), running.ID())
	}
	if _, err := s.Exec("exec_none"); !errors.Is(err, sandbox.ErrNotFound) {
		s.Errorf("what never ran: %v", err)
	}
}

func aDetachedStartIsBounded(s *subject) {
	sb := s.newSandbox()
	other := s.in(sb)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	bounded := other.command(beat("a"))
	bounded.Timeout = 3 * restTime
	var execs []sandbox.Exec
	begin := time.Now()
	for _, cmd := range []sandbox.Command{bounded, other.command(beat("b"))} {
		e, err := sb.Start(context.WithoutCancel(ctx), cmd)
		if err != nil {
			s.Fatalf("start: %v", err)
		}
		execs = append(execs, e)
	}
	s.prompt("the start", time.Since(begin), 0)
	cancel()
	rec := s.wait(execs[0])
	s.ended(rec, sandbox.TimedOut, sandbox.TimeoutExitCode)
	s.prompt("the command", rec.Duration, bounded.Timeout)
	other.rests("a")
	other.beats("b")
	s.closing("the sandbox", sb.Close)
	s.ended(s.wait(execs[1]), sandbox.Cancelled, none)
}

func aKeyStartsOnce(s *subject) {
	cmd := s.command(appendTo("ran"), sleep(restTime), print("x"))
	cmd.Key = "one"
	ids := make([]string, 12)
	var all errgroup.Group
	for i := range ids {
		all.Go(func() error {
			e, err := s.Start(s.ctx, cmd)
			if err == nil {
				ids[i] = e.ID()
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		s.Fatalf("start: %v", err)
	}
	rec := s.runCommand(cmd)
	s.completed(rec, 0, "x", "")
	if ids = slices.Compact(append(ids, rec.ID, s.runCommand(cmd).ID)); len(ids) != 1 || s.size("ran") != 1 {
		s.Errorf("%d executions %q of one key, which ran %d times; want one that ran once", len(ids), ids, s.size("ran"))
	}
	cmd.Key = "two"
	if s.runCommand(cmd); s.size("ran") != 2 {
		s.Errorf("another key did not run")
	}
}

// found returns the execution that e is a handle of, by its id.
func (s *subject) found(e sandbox.Exec) sandbox.Exec {
	s.Helper()
	again, err := s.Exec(e.ID())
	if err != nil {
		s.Fatalf("exec %s: %v", e.ID(), err)
	}
	return again
}
