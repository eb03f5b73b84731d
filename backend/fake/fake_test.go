package fake_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink collects output, and holds the command while gate is not closed.
type sink struct {
	gate chan struct{}

	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (s *sink) Write(b []byte) (int, error) {
	if s.gate != nil {
		<-s.gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// started is one command under test.
type started struct {
	backend.Process
	stdout, stderr sink
}

// create makes one sandbox, which is destroyed at the end of the test.
func create(t *testing.T, b *fake.Backend) backend.Instance {
	t.Helper()
	i, err := b.Create(t.Context(), &backend.Config{ID: "sbx_1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return i
}

func start(t *testing.T, i backend.Instance, spec backend.Spec) *started {
	t.Helper()
	s := &started{}
	spec.Stdout, spec.Stderr = &s.stdout, &s.stderr
	p, err := i.Start(t.Context(), &spec)
	if err != nil {
		t.Fatal(err)
	}
	s.Process = p
	return s
}

// script runs each test in a bubble with a sandbox where "x" does what h does.
func script(t *testing.T, h fake.Handler, test func(*testing.T, *fake.Backend, *started)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := fake.New(nil)
		b.Handle("x", h)
		test(t, b, start(t, create(t, b), backend.Spec{Shell: "x"}))
	})
}

func isOver(p backend.Process) bool {
	select {
	case <-p.OutputOver():
		return true
	default:
		return false
	}
}

func TestExit(t *testing.T) {
	tests := []struct {
		name    string
		handler fake.Handler
		want    backend.Exit
	}{
		{"return", func(*fake.Process) int { return 7 }, backend.Exit{Code: 7}},
		{"exit", func(p *fake.Process) int { p.Exit(8); return 0 }, backend.Exit{Code: 8}},
		{"raise", func(p *fake.Process) int { p.Raise(backend.SIGSEGV); return 0 }, backend.Exit{Signal: backend.SIGSEGV}},
		{"raise-ignored", func(p *fake.Process) int {
			p.Ignore(backend.SIGTERM)
			p.Raise(backend.SIGTERM)
			return 1
		}, backend.Exit{Code: 1}},
		{"raise-harmless", func(p *fake.Process) int { p.Raise(backend.SIGWINCH); return 1 }, backend.Exit{Code: 1}},
		{"kill-is-not-ignored", func(p *fake.Process) int {
			p.Ignore(backend.SIGKILL)
			p.Catch(backend.SIGKILL)
			p.Raise(backend.SIGKILL)
			return 1
		}, backend.Exit{Signal: backend.SIGKILL}},
		{"memory", func(p *fake.Process) int { p.KillOOM(); return 0 },
			backend.Exit{Signal: backend.SIGKILL, OOMKilled: true, Usage: &backend.Usage{OOMKills: 1}}},
		{"deferred-functions-run", func(p *fake.Process) int {
			defer io.WriteString(io.Discard, "")
			p.Exit(2)
			return 0
		}, backend.Exit{Code: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			script(t, tt.handler, func(t *testing.T, _ *fake.Backend, s *started) {
				got, err := s.Exit()
				if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
					t.Errorf("Wait: error %v, (-want +got)\n%s", err, diff)
				}
				<-s.OutputOver()
			})
		})
	}
}

func TestUnscripted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := create(t, fake.New(nil))
		s := start(t, i, backend.Spec{Shell: "ls -l"})
		exit, err := s.Exit()
		if exit.Code != 127 || err != nil || s.stderr.String() != "fake: no handler for command: ls -l\n" {
			t.Errorf("shell text: %+v, %v, stderr %q", exit, err, s.stderr.String())
		}
		_, err = i.Start(t.Context(), &backend.Spec{Argv: []string{"ls", "-l"}, Stdout: io.Discard, Stderr: io.Discard})
		if !errors.Is(err, backend.NotFound) || !strings.Contains(err.Error(), "ls -l") {
			t.Errorf("arguments: %v", err)
		}
	})
}

func TestLatestRuleHolds(t *testing.T) {
	script(t, fake.Result(1, "", ""), func(t *testing.T, b *fake.Backend, s *started) {
		s.Exit()
		b.HandleFunc(func(c *fake.Command) bool { return c.Getenv("A") == "b" }, func(p *fake.Process) int {
			io.WriteString(p.Stdout, p.Getenv("HOME"))
			return 2
		})
		i, err := b.Create(t.Context(), &backend.Config{ID: "sbx_2"})
		if err != nil {
			t.Fatal(err)
		}
		s = start(t, i, backend.Spec{Argv: []string{"x"}, Env: []string{"A=b"}})
		if exit, _ := s.Exit(); exit.Code != 2 || s.stdout.String() != "/workspace" {
			t.Errorf("exit %+v, stdout %q", exit, s.stdout.String())
		}
	})
}

func TestFullPipeHoldsTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fake.New(nil)
		wrote := 0
		b.Handle("x", func(p *fake.Process) int {
			for range 1000 {
				n, _ := p.Stdout.Write(make([]byte, 1000))
				wrote += n
			}
			return 0
		})
		held := &sink{gate: make(chan struct{})}
		p, err := create(t, b).Start(t.Context(), &backend.Spec{Shell: "x", Stdout: held, Stderr: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if wrote > 200_000 {
			t.Errorf("%d bytes were written that nobody read", wrote)
		}
		close(held.gate)
		if _, err := p.Exit(); err != nil || len(held.String()) != 1_000_000 {
			t.Errorf("%d bytes arrived, error %v", len(held.String()), err)
		}
	})
}

func TestOrderOverBothStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fake.New(nil)
		b.Handle("x", func(p *fake.Process) int {
			for range 3 {
				io.WriteString(p.Stdout, "o")
				io.WriteString(p.Stderr, "e")
			}
			return 0
		})
		both := &sink{}
		p, err := create(t, b).Start(t.Context(), &backend.Spec{Shell: "x", Stdout: both, Stderr: both})
		if err != nil {
			t.Fatal(err)
		}
		p.Exit()
		if both.String() != "oeoeoe" {
			t.Errorf("got %q", both.String())
		}
	})
}

func TestInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fake.New(nil)
		b.Handle("cat", func(p *fake.Process) int {
			io.Copy(p.Stdout, p.Stdin)
			return 0
		})
		b.Handle("true", fake.Result(0, "", ""))
		i := create(t, b)
		big := strings.Repeat("0123456789", 100_000)
		s := start(t, i, backend.Spec{Shell: "cat", Stdin: strings.NewReader(big)})
		if s.Exit(); s.stdout.String() != big {
			t.Errorf("%d bytes of %d arrived", len(s.stdout.String()), len(big))
		}
		if s := start(t, i, backend.Spec{Shell: "cat"}); true {
			s.Exit()
		}
		r, w := io.Pipe() // an input that never ends and is not waited for
		s = start(t, i, backend.Spec{Shell: "true", Stdin: r})
		s.Exit()
		w.Close()
		s = start(t, i, backend.Spec{Shell: "true", Stdin: strings.NewReader(big)})
		s.Exit()
	})
}

func TestBackground(t *testing.T) {
	sleepAndPrint := func(p *fake.Process) int {
		p.Sleep(time.Minute)
		io.WriteString(p.Stdout, "late")
		return 0
	}
	spawn := func(how fake.How) fake.Handler {
		return func(p *fake.Process) int {
			p.Spawn(sleepAndPrint, how)
			io.WriteString(p.Stdout, "now ")
			return 0
		}
	}
	t.Run("kept-output-is-held", func(t *testing.T) {
		script(t, spawn(fake.How{}), func(t *testing.T, _ *fake.Backend, s *started) {
			began := time.Now()
			s.Exit()
			if time.Since(began) != 0 || isOver(s) || s.stdout.String() != "now " {
				t.Errorf("after %v: over %v, %q", time.Since(began), isOver(s), s.stdout.String())
			}
			<-s.OutputOver()
			if time.Since(began) != time.Minute || s.stdout.String() != "now late" {
				t.Errorf("after %v: %q", time.Since(began), s.stdout.String())
			}
		})
	})
	t.Run("redirected-output-is-not-held", func(t *testing.T) {
		script(t, spawn(fake.How{Redirected: true}), func(t *testing.T, _ *fake.Backend, s *started) {
			began := time.Now()
			<-s.OutputOver()
			if time.Since(began) != 0 || s.stdout.String() != "now " {
				t.Errorf("after %v: %q", time.Since(began), s.stdout.String())
			}
		})
	})
	t.Run("discarded-output-is-dropped", func(t *testing.T) {
		script(t, spawn(fake.How{}), func(t *testing.T, _ *fake.Backend, s *started) {
			s.Exit()
			s.DiscardOutput()
			<-s.OutputOver()
			if s.stdout.String() != "now " {
				t.Errorf("got %q", s.stdout.String())
			}
		})
	})
	t.Run("kill-reaches-it", func(t *testing.T) {
		script(t, spawn(fake.How{Session: true}), func(t *testing.T, _ *fake.Backend, s *started) {
			s.Exit()
			if err := s.Kill(); err != nil || !isOver(s) {
				t.Errorf("kill: %v, over %v", err, isOver(s))
			}
			time.Sleep(time.Hour)
			if s.stdout.String() != "now " {
				t.Errorf("got %q", s.stdout.String())
			}
		})
	})
	t.Run("wait-waits-for-it", func(t *testing.T) {
		script(t, func(p *fake.Process) int {
			p.Spawn(sleepAndPrint, fake.How{})
			p.Wait()
			io.WriteString(p.Stdout, " end")
			return 0
		}, func(t *testing.T, _ *fake.Backend, s *started) {
			s.Exit()
			if s.stdout.String() != "late end" {
				t.Errorf("got %q", s.stdout.String())
			}
		})
	})
}

func TestSignal(t *testing.T) {
	script(t, func(p *fake.Process) int {
		terms := p.Catch(backend.SIGTERM)
		p.Ignore(backend.SIGHUP)
		p.Spawn(func(p *fake.Process) int { p.Hang(); return 0 }, fake.How{Session: true})
		<-terms
		io.WriteString(p.Stdout, "bye")
		p.Sleep(time.Hour)
		return 0
	}, func(t *testing.T, _ *fake.Backend, s *started) {
		synctest.Wait()
		for _, sig := range []backend.Signal{backend.SIGHUP, backend.SIGTERM, backend.SIGINT} {
			if err := s.Signal(t.Context(), sig); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		exit, _ := s.Exit()
		if exit.Signal != backend.SIGINT || s.stdout.String() != "bye" {
			t.Errorf("%+v, %q", exit, s.stdout.String())
		}
		if err := s.Signal(t.Context(), backend.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("signal after the end: %v", err)
		}
		if isOver(s) {
			t.Error("a signal to the group reached another session")
		}
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	})
}

func TestKill(t *testing.T) {
	t.Run("takes-its-time", func(t *testing.T) {
		script(t, func(p *fake.Process) int {
			p.Linger(3 * time.Second)
			p.Hang()
			return 0
		}, func(t *testing.T, _ *fake.Backend, s *started) {
			synctest.Wait()
			began := time.Now()
			if err := s.Kill(); err != nil || time.Since(began) != 3*time.Second {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			if exit, err := s.Exit(); err != nil || exit.Signal != backend.SIGKILL {
				t.Errorf("%+v, %v", exit, err)
			}
			if err := s.Kill(); err != nil {
				t.Errorf("again: %v", err)
			}
		})
	})
	t.Run("names-survivors", func(t *testing.T) {
		script(t, func(p *fake.Process) int {
			p.Linger(time.Minute)
			p.Hang()
			return 0
		}, func(t *testing.T, _ *fake.Backend, s *started) {
			synctest.Wait()
			began := time.Now()
			err := s.Kill()
			want := &backend.SurvivorsError{Survivors: []backend.Survivor{{PID: 2, Name: "x"}}}
			if diff := cmp.Diff(error(want), err); diff != "" || time.Since(began) != 10*time.Second {
				t.Errorf("after %v: (-want +got)\n%s", time.Since(began), diff)
			}
			if _, err := s.Exit(); err == nil || !isOver(s) {
				t.Errorf("wait: %v, over %v", err, isOver(s))
			}
		})
	})
	t.Run("keeps-what-was-written", func(t *testing.T) {
		script(t, func(p *fake.Process) int {
			io.WriteString(p.Stdout, "kept")
			p.Sleep(time.Hour)
			io.WriteString(p.Stdout, "never")
			return 0
		}, func(t *testing.T, _ *fake.Backend, s *started) {
			synctest.Wait()
			if err := s.Kill(); err != nil || s.stdout.String() != "kept" {
				t.Errorf("%v, %q", err, s.stdout.String())
			}
		})
	})
}

func TestFaults(t *testing.T) {
	t.Run("lost-after-bytes", func(t *testing.T) {
		script(t, func(p *fake.Process) int {
			p.LoseAfter(5)
			io.WriteString(p.Stdout, "123")
			io.WriteString(p.Stderr, "456")
			return 0
		}, func(t *testing.T, _ *fake.Backend, s *started) {
			_, err := s.Exit()
			<-s.OutputOver()
			if err == nil || s.stdout.String() != "123" || s.stderr.String() != "45" {
				t.Errorf("%v, %q, %q", err, s.stdout.String(), s.stderr.String())
			}
		})
	})
	t.Run("sandbox-gone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := fake.New(nil)
			b.Handle("x", func(p *fake.Process) int { p.Hang(); return 0 })
			b.Handle("die", func(p *fake.Process) int { p.LoseSandbox(); return 0 })
			i := create(t, b)
			x := start(t, i, backend.Spec{Shell: "x"})
			die := start(t, i, backend.Spec{Shell: "die"})
			<-i.Gone()
			for _, s := range []*started{x, die} {
				if _, err := s.Exit(); err == nil {
					t.Error("an exit was made up")
				}
			}
			if _, err := i.Start(t.Context(), &backend.Spec{Shell: "x"}); err == nil {
				t.Error("something was started")
			}
		})
	})
	t.Run("create-fails", func(t *testing.T) {
		b := fake.New(&fake.Options{Create: func(_ context.Context, cfg *backend.Config) error {
			if cfg.Image != "" {
				return errors.ErrUnsupported
			}
			return nil
		}})
		_, err := b.Create(t.Context(), &backend.Config{ID: "sbx_1", Image: "busybox"})
		if !errors.Is(err, errors.ErrUnsupported) || len(b.Sandboxes()) != 0 {
			t.Errorf("%v, left %v", err, b.Sandboxes())
		}
	})
	t.Run("slow-start-is-given-up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := fake.New(&fake.Options{Start: func(context.Context, *fake.Command) error {
				time.Sleep(time.Minute)
				return nil
			}})
			b.Handle("x", fake.Result(0, "", ""))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := create(t, b).Start(ctx, &backend.Spec{Shell: "x"})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
	})
	t.Run("destroy-is-tried-again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := fake.New(nil)
			b.Handle("x", func(p *fake.Process) int {
				p.Linger(time.Minute)
				p.Hang()
				return 0
			})
			i := create(t, b)
			start(t, i, backend.Spec{Shell: "x"})
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			survivors := &backend.SurvivorsError{}
			if err := i.Destroy(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &survivors) {
				t.Errorf("first: %v", err)
			}
			if err := i.Destroy(t.Context()); err != nil || len(b.Sandboxes()) != 0 {
				t.Errorf("second: %v, left %v", err, b.Sandboxes())
			}
		})
	})
}

func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fake.New(nil)
		b.Handle("x", fake.Result(0, "", ""))
		i := create(t, b)
		s := start(t, i, backend.Spec{Argv: []string{"x"}, Dir: "sub"})
		s.Signal(t.Context(), backend.SIGTERM)
		s.Exit()
		s.DiscardOutput()
		s.Kill()
		i.Destroy(t.Context())
		cmd := &fake.Command{Sandbox: "sbx_1", Argv: []string{"x"}, Dir: "sub"}
		want := []fake.Call{
			{Op: fake.OpCreate, Sandbox: "sbx_1", Config: &backend.Config{ID: "sbx_1"}},
			{Op: fake.OpStart, Sandbox: "sbx_1", Command: cmd},
			{Op: fake.OpSignal, Sandbox: "sbx_1", Command: cmd, Signal: backend.SIGTERM},
			{Op: fake.OpDiscard, Sandbox: "sbx_1", Command: cmd},
			{Op: fake.OpKill, Sandbox: "sbx_1", Command: cmd},
			{Op: fake.OpDestroy, Sandbox: "sbx_1"},
		}
		if diff := cmp.Diff(want, b.Calls(), cmpopts.IgnoreFields(fake.Command{}, "Env")); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}
