package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
)

// writer is a function as an io.Writer.
type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// live is a buffer that is looked at while it is written to.
type live struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *live) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *live) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func TestWritersGetAllLive(t *testing.T) {
	data := numbered(3 * head)
	handler := func(p *fake.Process) int {
		io.WriteString(p.Stdout, "out ")
		io.WriteString(p.Stderr, "err ")
		p.Sleep(time.Hour)
		p.Stdout.Write(data)
		return 0
	}
	bubble(t, handler, func(t *testing.T, sb sandbox.Sandbox) {
		var both, alone live
		ex := start(t, sb, sandbox.Command{Stdout: &both, Stderr: &both, MaxOutput: -1})
		again := start(t, sb, sandbox.Command{Stderr: &alone})
		synctest.Wait()
		if both.String() != "out err " || alone.String() != "err " {
			t.Errorf("while the command sleeps the writers have %q and %q", both.String(), alone.String())
		}
		rec := wait(t, ex)
		if want := "out err " + string(data); both.String() != want {
			t.Errorf("the writer has %d bytes when Wait returns, want %d", len(both.String()), len(want))
		}
		if rec.Status != sandbox.Completed || rec.OutputErr != nil {
			t.Errorf("%s, output error %v", rec.Status, rec.OutputErr)
		}
		if rec.Command.Stdout != nil || rec.Command.Stderr != nil {
			t.Error("the record keeps the writers")
		}
		if wait(t, again); alone.String() != "err " {
			t.Errorf("the writer of stderr alone has %q", alone.String())
		}
	})
}

func TestWriterHoldsTheCommand(t *testing.T) {
	data := numbered(8 * window)
	var written time.Time
	handler := func(p *fake.Process) int {
		p.Stdout.Write(data)
		written = time.Now()
		return 0
	}
	bubble(t, handler, func(t *testing.T, sb sandbox.Sandbox) {
		began := time.Now()
		var got bytes.Buffer
		slow := writer(func(p []byte) (int, error) {
			if got.Len() == 0 {
				time.Sleep(time.Hour)
			}
			return got.Write(p)
		})
		// Another reader, however fast, makes the writer lose nothing.
		ex, s, err := sb.Follow(t.Context(), sandbox.Command{Shell: "cmd", Stdout: slow, MaxOutput: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := readAll(t.Context(), s); err != nil {
			t.Error(err)
		}
		rec := wait(t, ex)
		if held := written.Sub(began); held != time.Hour {
			t.Errorf("the command was held for %v, want an hour", held)
		}
		if !bytes.Equal(got.Bytes(), data) || rec.OutputErr != nil {
			t.Errorf("the writer got %d of %d bytes, %v", got.Len(), len(data), rec.OutputErr)
		}
	})
}

func TestWriterThatFails(t *testing.T) {
	failure := errors.New("disk full")
	for name, tt := range map[string]struct {
		write func(p []byte) (int, error)
		is    error
		text  string
	}{
		"error": {func([]byte) (int, error) { return 0, failure }, failure, "stdout: disk full"},
		"short": {func(p []byte) (int, error) { return len(p) - 1, nil }, io.ErrShortWrite, "stdout: short write"},
		"panic": {func([]byte) (int, error) { panic(failure) }, failure, "stdout: panic: disk full"},
	} {
		t.Run(name, func(t *testing.T) {
			handler := func(p *fake.Process) int {
				for range 4 {
					p.Stdout.Write(numbered(window))
					io.WriteString(p.Stderr, "e")
					p.Sleep(time.Second)
				}
				return 3
			}
			bubble(t, handler, func(t *testing.T, sb sandbox.Sandbox) {
				calls := 0
				var stderr strings.Builder
				rec := wait(t, start(t, sb, sandbox.Command{
					Stdout: writer(func(p []byte) (int, error) { calls++; return tt.write(p) }),
					Stderr: &stderr,
				}))
				if rec.Status != sandbox.Completed || *rec.ExitCode != 3 || rec.Stdout.Total != 4*window {
					t.Errorf("the command is %s with %d bytes, want it to go on", rec.Status, rec.Stdout.Total)
				}
				if !errors.Is(rec.OutputErr, tt.is) || rec.OutputErr.Error() != tt.text {
					t.Errorf("the record says %v, want %q", rec.OutputErr, tt.text)
				}
				if calls != 1 || stderr.String() != "eeee" {
					t.Errorf("%d calls of the writer that failed, and the other got %q", calls, &stderr)
				}
			})
		})
	}
}

func TestWriterThatEndsItsGoroutine(t *testing.T) {
	bubble(t, fake.Result(0, "x", ""), func(t *testing.T, sb sandbox.Sandbox) {
		left := make(chan struct{})
		rec := wait(t, start(t, sb, sandbox.Command{Stdout: writer(func([]byte) (int, error) {
			close(left)
			runtime.Goexit()
			return 0, nil
		})}))
		<-left
		if rec.Status != sandbox.Completed || rec.OutputErr == nil {
			t.Errorf("%s, output error %v; want it told", rec.Status, rec.OutputErr)
		}
	})
}

// A writer that blocks delays the record for as long as the command may take, and then
// for 5 s.
func TestWriterThatBlocks(t *testing.T) {
	quick := fake.Result(0, "x", "")
	hanging := func(p *fake.Process) int { p.Stdout.Write(numbered(4 * window)); return 0 }
	cancel := func(ex sandbox.Exec, _ sandbox.Sandbox) { ex.Cancel(context.Background()) }
	for name, tt := range map[string]struct {
		handler fake.Handler
		timeout time.Duration
		end     func(sandbox.Exec, sandbox.Sandbox) // after a minute
		status  sandbox.Status
		after   time.Duration
	}{
		"held-at-its-timeout":               {hanging, 10 * time.Second, nil, sandbox.TimedOut, 15 * time.Second},
		"held-when-cancelled":               {hanging, 0, cancel, sandbox.Cancelled, 65 * time.Second},
		"over-before-its-timeout":           {quick, 10 * time.Second, nil, sandbox.Completed, 15 * time.Second},
		"over-before-it-was-cancelled":      {quick, 0, cancel, sandbox.Completed, 65 * time.Second},
		"over-before-the-sandbox-is-closed": {quick, 0, func(_ sandbox.Exec, sb sandbox.Sandbox) { sb.Close(context.Background()) }, sandbox.Completed, 65 * time.Second},
		"lost": {func(p *fake.Process) int {
			io.WriteString(p.Stdout, "x")
			p.Sleep(time.Second)
			p.LoseSandbox()
			return 0
		}, 0, nil, sandbox.Failed, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, tt.handler, func(t *testing.T, sb sandbox.Sandbox) {
				began := time.Now()
				free := make(chan struct{})
				calls := 0
				ex := start(t, sb, sandbox.Command{Timeout: tt.timeout, Stdout: writer(func(p []byte) (int, error) {
					calls++
					<-free
					return len(p), nil
				})})
				if tt.end != nil {
					time.AfterFunc(time.Minute, func() { tt.end(ex, sb) })
				}
				synctest.Wait()
				if got := ex.Execution().Status; got != sandbox.Running {
					t.Errorf("before the writer has got all it is %s", got)
				}
				rec := wait(t, ex)
				if took := time.Since(began); rec.Status != tt.status || took != tt.after {
					t.Errorf("%s after %v, want %s after %v", rec.Status, took, tt.status, tt.after)
				}
				if !errors.Is(rec.OutputErr, os.ErrDeadlineExceeded) {
					t.Errorf("the record says %v of a writer that has not returned", rec.OutputErr)
				}
				close(free)
				synctest.Wait()
				if calls != 1 {
					t.Errorf("%d calls, want none after the execution was over", calls)
				}
			})
		})
	}
}

func TestWriterIsToldWhatAKillHasCut(t *testing.T) {
	handler := func(p *fake.Process) int { p.Stdout.Write(numbered(4 * window)); p.Sleep(time.Hour); return 0 }
	bubble(t, handler, func(t *testing.T, sb sandbox.Sandbox) {
		var got bytes.Buffer
		slow := writer(func(p []byte) (int, error) {
			time.Sleep(11 * time.Second)
			return got.Write(p)
		})
		rec := wait(t, start(t, sb, sandbox.Command{Stdout: slow, MaxOutput: -1, Timeout: 10 * time.Second}))
		var gap *sandbox.GapError
		if !errors.As(rec.OutputErr, &gap) || gap.Source != sandbox.Stdout || int64(got.Len())+gap.Bytes != gap.Offset {
			t.Errorf("after %d bytes the record says %v, want the gap", got.Len(), rec.OutputErr)
		}
		if !bytes.HasPrefix(numbered(4*window), got.Bytes()) {
			t.Error("what the writer got is no beginning of the output")
		}
	})
}

func TestWritersOfACommandThatDidNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sb, stop := newSandbox(t, fake.New(nil), nil)
		defer stop()
		var out bytes.Buffer
		rec, err := sb.Run(t.Context(), sandbox.Command{Argv: []string{"missing"}, Stdout: &out})
		if err != nil || rec.Status != sandbox.Failed || rec.OutputErr != nil || out.Len() > 0 {
			t.Errorf("%+v, %v", rec, err)
		}
	})
}

func ExampleCommand_stdout() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("build", func(p *fake.Process) int {
		io.WriteString(p.Stdout, "compiling\n")
		io.WriteString(p.Stderr, "a warning\n")
		return 0
	})
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)

	rec, err := sb.Run(ctx, sandbox.Command{Shell: "build", Stdout: os.Stdout, Stderr: os.Stdout})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rec.Status, rec.OutputErr)
	// Output:
	// compiling
	// a warning
	// completed <nil>
}

// A stream has ended when the record is final, which waits for a slow writer.
func TestAStreamEndsWithTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fake.New(nil)
		b.Handle("cmd", fake.Result(0, "x", ""))
		sb, stop := newSandbox(t, b, nil)
		defer stop()
		slow := writerFunc(func(p []byte) (int, error) {
			time.Sleep(2 * time.Second)
			return len(p), nil
		})
		ex, stream, err := sb.Follow(t.Context(), sandbox.Command{Shell: "cmd", Stdout: slow})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		for err == nil {
			_, err = stream.Next(t.Context())
		}
		if rec := ex.Execution(); err != io.EOF || rec.Status != sandbox.Completed {
			t.Errorf("after %v the record is %v, want completed", err, rec.Status)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
