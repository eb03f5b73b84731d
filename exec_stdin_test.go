package sandbox_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/fake"
)

func cat(p *fake.Process) int {
	io.Copy(p.Stdout, p.Stdin)
	return 0
}

func TestWriteStdin(t *testing.T) {
	// It lives on after its input, so that it is known which error a write gives then.
	handler := func(p *fake.Process) int {
		defer p.Sleep(time.Second)
		return cat(p)
	}
	bubble(t, handler, func(t *testing.T, sb sandbox.Sandbox) {
		ex := start(t, sb, sandbox.Command{Stdin: strings.NewReader("given "), OpenStdin: true})
		for _, s := range []string{"written ", "", "twice"} {
			if n, err := ex.WriteStdin(t.Context(), []byte(s)); n != len(s) || err != nil {
				t.Errorf("WriteStdin(%q) = %d, %v", s, n, err)
			}
		}
		synctest.Wait()
		if got := ex.Execution().Stdout.String(); got != "given written twice" {
			t.Errorf("before the end the command has read %q", got)
		}
		if err := ex.CloseStdin(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := ex.WriteStdin(t.Context(), []byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("WriteStdin after CloseStdin gave %v", err)
		}
		if rec := wait(t, ex); rec.Status != sandbox.Completed || rec.Stdout.String() != "given written twice" {
			t.Errorf("%s with %q", rec.Status, rec.Stdout)
		}
		if _, err := ex.WriteStdin(t.Context(), []byte("x")); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("WriteStdin after the end gave %v", err)
		}
	})
}

func TestWriteStdinThatNobodyReads(t *testing.T) {
	bubble(t, func(p *fake.Process) int { p.Sleep(time.Hour); return 0 }, func(t *testing.T, sb sandbox.Sandbox) {
		ex := start(t, sb, sandbox.Command{OpenStdin: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if n, err := ex.WriteStdin(ctx, numbered(1<<20)); n >= 1<<20 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WriteStdin = %d, %v; want its context's error", n, err)
		}
		go func() {
			time.Sleep(time.Minute)
			ex.Cancel(t.Context())
		}()
		if _, err := ex.WriteStdin(t.Context(), numbered(1<<20)); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("WriteStdin of a command that ended gave %v", err)
		}
	})
}

// An empty write, which asks whether there could be another, does not wait for one.
func TestAnEmptyWriteStdinWaitsForNobody(t *testing.T) {
	bubble(t, func(p *fake.Process) int { p.Sleep(time.Hour); return 0 }, func(t *testing.T, sb sandbox.Sandbox) {
		ex := start(t, sb, sandbox.Command{OpenStdin: true})
		go ex.WriteStdin(context.Background(), numbered(1<<20))
		synctest.Wait()
		began := time.Now()
		if _, err := ex.WriteStdin(t.Context(), nil); err != nil || time.Since(began) > 0 {
			t.Errorf("while another writes, an empty write gave %v after %v", err, time.Since(began))
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := ex.WriteStdin(ended, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended it gave %v", err)
		}
		wait(t, ex)
	})
}

func TestStdinThatIsNotOpen(t *testing.T) {
	bubble(t, cat, func(t *testing.T, sb sandbox.Sandbox) {
		ex := start(t, sb, sandbox.Command{})
		var invalid *sandbox.InvalidError
		if _, err := ex.WriteStdin(t.Context(), nil); !errors.As(err, &invalid) {
			t.Errorf("WriteStdin gave %v, want an *InvalidError", err)
		}
		if rec := wait(t, ex); rec.Status != sandbox.Completed || rec.Stdout.Total != 0 {
			t.Errorf("%s with %q", rec.Status, rec.Stdout)
		}
	})
}

func TestSignal(t *testing.T) {
	handler := func(p *fake.Process) int {
		io.WriteString(p.Stdout, (<-p.Catch(backend.SIGUSR1)).String())
		p.Sleep(time.Hour)
		return 0
	}
	bubble(t, handler, func(t *testing.T, sb sandbox.Sandbox) {
		ex := start(t, sb, sandbox.Command{})
		synctest.Wait()
		for _, s := range []sandbox.Signal{backend.SIGUSR1, backend.SIGINT} {
			if err := ex.Signal(t.Context(), s); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		rec := wait(t, ex)
		if rec.Signal != backend.SIGINT || rec.Stdout.String() != "SIGUSR1" || *rec.ExitCode != 130 {
			t.Errorf("ended by %v with %q", rec.Signal, rec.Stdout)
		}
		if err := ex.Signal(t.Context(), backend.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("Signal after the end gave %v", err)
		}
		var invalid *sandbox.InvalidError
		if err := ex.Signal(t.Context(), 65); !errors.As(err, &invalid) {
			t.Errorf("Signal(65) gave %v", err)
		}
	})
}

func TestIdempotentStart(t *testing.T) {
	runs := 0
	b := fake.New(nil)
	b.Handle("cmd", func(p *fake.Process) int { runs++; p.Sleep(time.Second); io.WriteString(p.Stdout, "x"); return 0 })
	synctest.Test(t, func(t *testing.T) {
		sb, stop := newSandbox(t, b, &sandbox.Options{Records: 1})
		defer stop()
		first := start(t, sb, sandbox.Command{Key: "k"})
		again, s, err := sb.Follow(t.Context(), sandbox.Command{Shell: "another", Key: "k"})
		if err != nil || again != first {
			t.Fatalf("the same key gave another execution, %v", err)
		}
		defer s.Close()
		if chunks, err := readAll(t.Context(), s); err != nil || len(chunks) != 1 {
			t.Errorf("following it gave %v, %v", chunks, err)
		}
		if rec, err := sb.Run(t.Context(), sandbox.Command{Shell: "cmd", Key: "k"}); err != nil || rec.ID != first.ID() || runs != 1 {
			t.Errorf("the key of a recorded execution gave %v, %v after %d runs", rec, err, runs)
		}
		wait(t, start(t, sb, sandbox.Command{}))
		if again := start(t, sb, sandbox.Command{Key: "k"}); again == first {
			t.Error("a key is remembered longer than its record")
		}
	})
}
