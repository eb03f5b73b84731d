package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/fake"
	"github.com/sandbox-go/sandbox/internal/faketest"
)

func TestKillWinsOverWhatHappensAtTheSameTime(t *testing.T) {
	for _, wait := range []sandbox.WaitMode{sandbox.WaitOutput, sandbox.WaitExit} {
		for range 20 {
			bubble(t, func(p *fake.Process) int { p.Sleep(time.Second); return 0 }, func(t *testing.T, sb sandbox.Sandbox) {
				rec, err := sb.Run(t.Context(), sandbox.Command{Shell: "cmd", Timeout: time.Second, Wait: wait})
				if err != nil || rec.Status != sandbox.TimedOut || *rec.ExitCode != sandbox.TimeoutExitCode {
					t.Fatalf("a command that ended as it timed out is %s, %v", rec.Status, err)
				}
			})
		}
	}
}

func TestContext(t *testing.T) {
	sleep := func(p *fake.Process) int { p.Sleep(time.Hour); return 0 }
	bubble(t, sleep, func(t *testing.T, sb sandbox.Sandbox) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := sb.Run(ended, sandbox.Command{Shell: "cmd"}); !errors.Is(err, context.Canceled) {
			t.Errorf("Run with an ended context gave the error %v", err)
		}
		if n := len(sb.Execs()); n != 0 {
			t.Errorf("%d executions recorded of a refused start", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		rec, err := sb.Run(ctx, sandbox.Command{Shell: "cmd"})
		if err != nil || rec.Status != sandbox.Cancelled || rec.ExitCode != nil || rec.Duration != time.Minute {
			t.Errorf("a context that ended in the run gave %+v, %v", rec, err)
		}
		ex := start(t, sb, sandbox.Command{})
		waiting, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := ex.Wait(waiting); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait whose context ended gave %v", err)
		}
		if got := ex.Execution().Status; got != sandbox.Running {
			t.Errorf("the end of the waiting made the execution %s", got)
		}
	})
}

func TestGrace(t *testing.T) {
	b := func(catch bool) fake.Handler {
		return func(p *fake.Process) int {
			if catch {
				<-p.Catch(backend.SIGTERM)
				p.Sleep(time.Second)
				io.WriteString(p.Stdout, "bye")
				return 3
			}
			p.Ignore(backend.SIGTERM)
			p.Sleep(time.Hour)
			return 0
		}
	}
	for _, tt := range []struct {
		name  string
		catch bool
		took  time.Duration
		out   string
	}{
		{"heeds-it", true, 11 * time.Second, "bye"},
		{"ignores-it", false, 15 * time.Second, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, b(tt.catch), func(t *testing.T, sb sandbox.Sandbox) {
				rec := wait(t, start(t, sb, sandbox.Command{Timeout: 10 * time.Second, Grace: 5 * time.Second}))
				if rec.Status != sandbox.TimedOut || rec.Duration != tt.took || rec.Stdout.String() != tt.out {
					t.Errorf("%s after %v with %q, want timeout after %v with %q", rec.Status, rec.Duration, rec.Stdout, tt.took, tt.out)
				}
			})
		})
	}
	t.Run("close-does-not-wait-for-it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			fb := fake.New(nil)
			fb.Handle("cmd", b(false))
			sb, stop := newSandbox(t, fb, nil)
			ex := start(t, sb, sandbox.Command{Grace: time.Hour})
			stop()
			if rec := wait(t, ex); rec.Status != sandbox.Cancelled || rec.Duration != 0 {
				t.Errorf("%s after %v, want cancelled at once", rec.Status, rec.Duration)
			}
			if _, err := sb.Start(t.Context(), sandbox.Command{Shell: "cmd"}); !errors.Is(err, sandbox.ErrClosed) {
				t.Errorf("Start after Close gave %v, want ErrClosed", err)
			}
		})
	})
}

func TestNoGraceIsNoSignal(t *testing.T) {
	for name, end := range map[string]struct {
		cmd    sandbox.Command
		cancel bool
	}{
		"timeout": {cmd: sandbox.Command{Shell: "cmd", Timeout: time.Second}},
		"cancel":  {cmd: sandbox.Command{Shell: "cmd"}, cancel: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fb := fake.New(nil)
				fb.Handle("cmd", func(p *fake.Process) int { p.Sleep(time.Hour); return 0 })
				sb, stop := newSandbox(t, fb, nil)
				defer stop()
				ex := start(t, sb, end.cmd)
				if end.cancel {
					if err := ex.Cancel(t.Context()); err != nil {
						t.Error(err)
					}
				}
				wait(t, ex)
				var ops []fake.Op
				for _, call := range fb.Calls() {
					ops = append(ops, call.Op)
				}
				if want := []fake.Op{fake.OpCreate, fake.OpStart, fake.OpKill}; !slices.Equal(ops, want) {
					t.Errorf("the backend was asked for %v, want %v", ops, want)
				}
			})
		})
	}
}

func TestStartError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []sandbox.Status
		fb := fake.New(nil)
		sb, stop := newSandbox(t, fb, &sandbox.Options{Observer: faketest.Records(func(_ sandbox.Key, e *sandbox.Execution) { seen = append(seen, e.Status) })})
		defer stop()
		ex, s, err := sb.Follow(t.Context(), sandbox.Command{Argv: []string{"missing"}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		rec := wait(t, ex)
		if rec.Status != sandbox.Failed || rec.ExitCode != nil || !errors.Is(rec.Err, backend.NotFound) {
			t.Errorf("a missing program gave %s, %v", rec.Status, rec.Err)
		}
		if _, err := s.Next(t.Context()); !errors.Is(err, backend.NotFound) {
			t.Errorf("its stream gave %v, want the record's error", err)
		}
		synctest.Wait()
		if !slices.Equal(seen, []sandbox.Status{sandbox.Failed}) {
			t.Errorf("observed %v, want its failure alone", seen)
		}
		if _, err := sb.Exec(ex.ID()); err != nil {
			t.Errorf("a failed start is not recorded: %v", err)
		}
	})
}

// The record says all that the backend does of why a command was not started.
func TestStartErrorWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("dial unix /run/engine.sock: connection refused")
		start := &backend.StartError{Reason: backend.CannotStart, Detail: "try again"}
		b := fake.New(&fake.Options{Start: func(context.Context, *fake.Command) error { return fmt.Errorf("%w: %w", start, cause) }})
		sb, stop := newSandbox(t, b, nil)
		defer stop()
		rec, err := sb.Run(t.Context(), sandbox.Command{Shell: "cmd"})
		if err != nil {
			t.Fatal(err)
		}
		if rec.Status != sandbox.Failed || !errors.Is(rec.Err, start) || !errors.Is(rec.Err, cause) {
			t.Errorf("%s with the error %v", rec.Status, rec.Err)
		}
	})
}

func TestLost(t *testing.T) {
	for name, lose := range map[string]fake.Handler{
		"sandbox":             func(p *fake.Process) int { io.WriteString(p.Stdout, "x"); p.Sleep(1); p.LoseSandbox(); return 0 },
		"connection":          func(p *fake.Process) int { p.LoseAfter(1); io.WriteString(p.Stdout, "xy"); return 0 },
		"exit-never-reported": func(p *fake.Process) int { io.WriteString(p.Stdout, "x"); p.Hang(); return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, lose, func(t *testing.T, sb sandbox.Sandbox) {
				cmd := sandbox.Command{Shell: "cmd", Timeout: time.Minute}
				ex, s, err := sb.Follow(t.Context(), cmd)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				rec := wait(t, ex)
				_, streamErr := readAll(t.Context(), s)
				if name == "exit-never-reported" {
					if rec.Status != sandbox.TimedOut || rec.Duration != time.Minute || streamErr != nil {
						t.Errorf("%s after %v, stream %v; want a timeout", rec.Status, rec.Duration, streamErr)
					}
				} else if rec.Status != sandbox.Failed || rec.ExitCode != nil || !errors.Is(rec.Err, sandbox.ErrLost) || !errors.Is(streamErr, sandbox.ErrLost) {
					t.Errorf("%s, exit code %v, error %v, stream's error %v; want failed without a code and ErrLost", rec.Status, rec.ExitCode, rec.Err, streamErr)
				}
				if rec.Stdout.String() != "x" {
					t.Errorf("kept %q of what came before, want x", rec.Stdout)
				}
			})
		})
	}
}

func TestSurvivorsAreNamed(t *testing.T) {
	bubble(t, func(p *fake.Process) int { p.Linger(20 * time.Second); p.Sleep(time.Hour); return 0 }, func(t *testing.T, sb sandbox.Sandbox) {
		ex := start(t, sb, sandbox.Command{})
		synctest.Wait()
		began := time.Now()
		var survivors *sandbox.SurvivorsError
		if err := ex.Cancel(t.Context()); !errors.As(err, &survivors) || len(survivors.Survivors) != 1 {
			t.Errorf("Cancel gave %v, want the survivor", err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("Cancel took %v", took)
		}
		if rec := ex.Execution(); rec.Status != sandbox.Cancelled || !errors.As(rec.Err, &survivors) {
			t.Errorf("the record is %s with %v, want cancelled with the survivor", rec.Status, rec.Err)
		}
		time.Sleep(time.Minute)
	})
}

func TestMalformedCommandsStartNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fb := fake.New(nil)
		sb, stop := newSandbox(t, fb, nil)
		defer stop()
		before := len(fb.Calls())
		for field, cmd := range map[string]sandbox.Command{
			"Command":         {},
			"Command ":        {Shell: "a", Argv: []string{"a"}},
			"Command.Shell":   {Shell: strings.Repeat("a", 1<<20+1)},
			"Command.Shell ":  {Shell: "a\x00b"},
			"Command.Argv":    {Argv: []string{""}},
			"Command.Argv ":   {Argv: []string{"a", "b\x00"}},
			"Command.Dir":     {Shell: "a", Dir: "/\x00"},
			"Command.User":    {Shell: "a", User: "\x00"},
			"Command.Env":     {Shell: "a", Env: map[string]string{"": "x"}},
			"Command.Env ":    {Shell: "a", Env: map[string]string{"A=B": "x"}},
			"Command.Env  ":   {Shell: "a", Env: map[string]string{"A": "\x00"}},
			"Command.Env   ":  {Shell: "a", Env: map[string]string{"A\x00": ""}},
			"Command.Env    ": {Shell: "a", Env: map[string]string{"A": strings.Repeat("x", 128<<10)}},
			"Command.Env .":   {Shell: strings.Repeat("a", 1<<20), Env: environment(12, 100_000)},
			"Command.Argv  ":  {Argv: []string{"a", strings.Repeat("x", 128<<10)}},
			"Command.Argv .":  {Argv: slices.Repeat([]string{strings.Repeat("x", 100_000)}, 20)},
			"Command.Timeout": {Shell: "a", Timeout: -1},
			"Command.Grace":   {Shell: "a", Grace: -1},
			"Command.Wait":    {Shell: "a", Wait: 7},
		} {
			var invalid *sandbox.InvalidError
			_, err := sb.Run(t.Context(), cmd)
			if !errors.As(err, &invalid) || string(invalid.Field) != strings.TrimRight(field, " .") {
				t.Errorf("%s: got %v", field, err)
			}
		}
		if calls := fb.Calls()[before:]; len(calls) > 0 {
			t.Errorf("the backend was asked for %+v", calls)
		}
		for field, cfg := range map[string]sandbox.Config{
			"Config.Env":      {Env: map[string]string{"A=B": ""}},
			"Config.Env ":     {Env: environment(20, 100_000)},
			"Config.Image":    {Image: "\x00"},
			"Config.Mounts":   {Mounts: []sandbox.Mount{{Source: "/a", Target: "b"}}},
			"Config.Lifetime": {Lifetime: -1},
		} {
			var invalid *sandbox.InvalidError
			if _, err := sandbox.New(t.Context(), fb, &sandbox.Options{Config: cfg}); !errors.As(err, &invalid) || string(invalid.Field) != strings.TrimRight(field, " ") {
				t.Errorf("%s: got %v", field, err)
			}
		}
	})
}

// Each of a sandbox and a command may have an environment that both together may not.
func TestEnvironmentsAreTakenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fb := fake.New(nil)
		fb.Handle("cmd", fake.Result(0, "", ""))
		sb, stop := newSandbox(t, fb, &sandbox.Options{Config: sandbox.Config{Env: environment(10, 100_000)}})
		defer stop()
		if rec, err := sb.Run(t.Context(), sandbox.Command{Shell: "cmd"}); err != nil || rec.Status != sandbox.Completed {
			t.Errorf("with the sandbox's environment alone: %v, %v", rec, err)
		}
		var invalid *sandbox.InvalidError
		if _, err := sb.Run(t.Context(), sandbox.Command{Shell: "cmd", Env: environment(10, 100_000)}); !errors.As(err, &invalid) {
			t.Errorf("with as much again: got %v, want an *InvalidError", err)
		}
	})
}

// environment returns n variables of that many bytes.
func environment(n, size int) map[string]string {
	env := make(map[string]string)
	for i := range n {
		env[fmt.Sprintf("A%d", i)] = strings.Repeat("x", size)
	}
	return env
}

func TestEnvironmentLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fb := fake.New(nil)
		fb.Handle("env", func(p *fake.Process) int {
			io.WriteString(p.Stdout, p.Getenv("A")+p.Getenv("B")+p.Getenv("C"))
			return 0
		})
		env := map[string]string{"A": "sandbox", "B": "sandbox\n="}
		sb, stop := newSandbox(t, fb, &sandbox.Options{Config: sandbox.Config{Env: env}})
		defer stop()
		clear(env)
		rec, err := sb.Run(t.Context(), sandbox.Command{Shell: "env", Env: map[string]string{"A": "command", "C": ""}})
		if err != nil || rec.Stdout.String() != "commandsandbox\n=" {
			t.Errorf("the command saw %q, %v", rec.Stdout, err)
		}
	})
}
