package backendtest

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/sandbox-go/sandbox/backend"
)

// driverCases are about rules of the driver contract that package sandbox does not
// let users reach.
func driverCases() []Case {
	return []Case{{
		Name: "what-is-promised-is-there",
		Rule: "What Info promises of files, ports, egress, terminals and restoring, the instance, the process and the backend have, and nothing hides it.",
		run:  whatIsPromisedIsThere,
	}, {
		Name:  "an-unknown-file-operation-is-refused",
		Rule:  "An operation on files that the driver does not have, or a flag that it does not know, is an error that wraps errors.ErrUnsupported, and nothing is done.",
		needs: needFiles,
		run:   anUnknownFileOperationIsRefused,
	}, {
		Name: "a-kill-may-be-repeated",
		Rule: "Kill may be called again, also at the same time, and after the end does nothing; after it Exited and OutputOver are closed.",
		run:  aKillMayBeRepeated,
	}, {
		Name: "an-ended-command-takes-no-signal",
		Rule: "Signal is an error that wraps os.ErrProcessDone when the command has ended; everybody who asks gets the same Exit; Exited is closed before OutputOver.",
		run:  anEndedCommandTakesNoSignal,
	}, {
		Name: "an-ended-context-acts-on-nothing",
		Rule: "Signal and Resize return the error of a context that has ended, and send nothing.",
		run:  anEndedContextActsOnNothing,
	}, {
		Name: "a-discard-is-the-last-call-of-a-sink",
		Rule: "When DiscardOutput has returned no sink is called again, and the command goes on.",
		run:  aDiscardIsTheLastCallOfASink,
	}, {
		Name: "a-kill-is-the-last-call-of-a-sink",
		Rule: "After Kill no sink is called again; what had been written before has arrived.",
		run:  aKillIsTheLastCallOfASink,
	}, {
		Name: "an-end-may-be-repeated",
		Rule: "Destroy and Close may be called again, Close destroys what is left, and a closed backend answers Create with an error.",
		run:  anEndMayBeRepeated,
	}, {
		Name: "an-ended-context-creates-nothing",
		Rule: "Create and Start return the error of a context that has ended, and nothing is left.",
		run:  anEndedContextCreatesNothing,
	}}
}

func whatIsPromisedIsThere(s *subject) {
	info := s.backend.Info()
	_, filer := s.instance.(backend.Filer)
	_, dialer := s.instance.(backend.Dialer)
	_, listener := s.instance.(backend.Listener)
	_, recoverer := s.backend.(backend.Recoverer)
	if info.Files && !filer || info.Ports && !dialer || info.Egress && !listener || info.Recover != recoverer {
		s.Errorf("files, ports, egress, recover are promised %t, %t, %t, %t; a Filer, Dialer, Listener, Recoverer is there %t, %t, %t, %t",
			info.Files, info.Ports, info.Egress, info.Recover, filer, dialer, listener, recoverer)
	}
	if !info.Terminal {
		return
	}
	spec := s.spec(io.Discard, exit(0))
	spec.Terminal = &backend.TerminalSize{}
	p, err := s.instance.Start(s.ctx, spec)
	if err != nil {
		s.Fatalf("start: %v", err)
	}
	if _, ok := p.(backend.Resizer); !ok {
		s.Errorf("terminals are promised, and a %T is no Resizer", p)
	}
	if err := p.Kill(); err != nil {
		s.Errorf("kill: %v", err)
	}
}

func anUnknownFileOperationIsRefused(s *subject) {
	filer := s.instance.(backend.Filer)
	for _, r := range []*backend.FileRequest{
		{Op: "unknown", Name: "d"},
		{Op: backend.FileMkdir, Name: "d", Mode: 0o755, Flags: 1 << 31},
	} {
		if err := filer.File(s.ctx, r); !errors.Is(err, errors.ErrUnsupported) {
			s.Errorf("%q with flags %#x: got %v, want %v", r.Op, r.Flags, err, errors.ErrUnsupported)
		}
	}
	err := filer.File(s.ctx, &backend.FileRequest{Op: backend.FileList, Name: ".", Found: func(i backend.FileInfo) bool {
		s.Errorf("there is now %q, want nothing made", i.Path)
		return true
	}})
	if err != nil {
		s.Errorf("list: %v", err)
	}
}

func aKillMayBeRepeated(s *subject) {
	p := s.process(io.Discard, spawn(sleep(long)), sleep(long))
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if err := p.Kill(); err != nil {
				s.Errorf("kill: %v", err)
			}
		})
	}
	all.Wait()
	exit, err := p.Exit()
	if err != nil || exit.Signal != backend.SIGKILL {
		s.Errorf("exit: got %+v, %v; want signal %v", exit, err, backend.SIGKILL)
	}
	<-p.OutputOver()
	if err := p.Kill(); err != nil {
		s.Errorf("kill after the end: %v", err)
	}
}

func anEndedCommandTakesNoSignal(s *subject) {
	p := s.process(io.Discard, exit(4))
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if exit, err := p.Exit(); err != nil || exit.Code != 4 {
				s.Errorf("exit: got %+v, %v; want code 4", exit, err)
			}
		})
	}
	all.Wait()
	<-p.OutputOver()
	select {
	case <-p.Exited():
	default:
		s.Errorf("OutputOver was closed before Exited")
	}
	if err := p.Signal(s.ctx, backend.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		s.Errorf("signal: %v", err)
	}
}

func anEndedContextActsOnNothing(s *subject) {
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	spec := s.spec(io.Discard, beat("a"))
	if s.backend.Info().Terminal {
		spec.Terminal = &backend.TerminalSize{}
	}
	p, err := s.instance.Start(s.ctx, spec)
	if err != nil {
		s.Fatalf("start: %v", err)
	}
	s.beats("a")
	if err := p.Signal(ended, backend.SIGKILL); !errors.Is(err, context.Canceled) {
		s.Errorf("signal: %v", err)
	}
	if r, ok := p.(backend.Resizer); ok && spec.Terminal != nil {
		if err := r.Resize(ended, backend.TerminalSize{}); !errors.Is(err, context.Canceled) {
			s.Errorf("resize: %v", err)
		}
	}
	s.beats("a")
	if err := p.Kill(); err != nil {
		s.Errorf("kill: %v", err)
	}
}

func aDiscardIsTheLastCallOfASink(s *subject) {
	out := &guarded{}
	p := s.process(out, forever(print("x"), appendTo("written"), sleep(beatTime)))
	s.beats("written")
	p.DiscardOutput()
	out.forbid()
	s.beats("written")
	if err := p.Kill(); err != nil {
		s.Errorf("kill: %v", err)
	}
	if out.calledLate() {
		s.Errorf("a sink was called after DiscardOutput")
	}
}

func aKillIsTheLastCallOfASink(s *subject) {
	out := &guarded{}
	p := s.process(out, print("0123456789"), appendTo("written"), forever(print("x"), sleep(beatTime)))
	s.eventually("something was written", func() bool { return s.size("written") == 1 })
	if err := p.Kill(); err != nil {
		s.Errorf("kill: %v", err)
	}
	out.forbid()
	if n := out.length(); n < 10 {
		s.Errorf("%d bytes had arrived when the kill returned, want at least 10", n)
	}
	if _, err := p.Exit(); err != nil {
		s.Errorf("wait: %v", err)
	}
	if out.calledLate() {
		s.Errorf("a sink was called after Kill")
	}
}

func anEndMayBeRepeated(s *subject) {
	b := s.h.New(s)
	one, two := s.create(b, "sbx_one"), s.create(b, "sbx_two")
	for range 2 {
		s.closing("the instance", one.Destroy)
	}
	if _, err := two.Start(s.ctx, s.spec(io.Discard, sleep(long))); err != nil {
		s.Errorf("start: %v", err)
	}
	for range 2 {
		s.closing("the backend", b.Close)
	}
	if _, err := b.Create(s.ctx, &backend.Config{ID: "sbx_three"}); err == nil {
		s.Errorf("a closed backend has created a sandbox")
	}
	if _, err := two.Start(s.ctx, s.spec(io.Discard, exit(0))); err == nil {
		s.Errorf("a destroyed sandbox has started a command")
	}
}

func anEndedContextCreatesNothing(s *subject) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.backend.Create(ctx, &backend.Config{ID: "sbx_none"}); !errors.Is(err, context.Canceled) {
		s.Errorf("create: %v", err)
	}
	i := s.create(s.backend, "sbx_some")
	defer s.closing("the instance", i.Destroy)
	if _, err := i.Start(ctx, s.spec(io.Discard, exit(0))); !errors.Is(err, context.Canceled) {
		s.Errorf("start: %v", err)
	}
}
