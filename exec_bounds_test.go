package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/fake"
	"github.com/sandbox-go/sandbox/internal/faketest"
)

// A decorated is a backend whose calls do something else first, or instead.
type decorated struct {
	backend.Backend
	start   func(context.Context, *backend.Spec, backend.Instance) (backend.Process, error)
	process func(backend.Process) backend.Process
	destroy func(context.Context, backend.Instance) error
}

// Info promises nothing that decorated hides.
func (d *decorated) Info() backend.Info {
	info := d.Backend.Info()
	info.Files, info.Ports = false, false
	return info
}

func (d *decorated) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	i, err := d.Backend.Create(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &decoratedInstance{i, d}, nil
}

type decoratedInstance struct {
	backend.Instance
	d *decorated
}

func (i *decoratedInstance) Start(ctx context.Context, spec *backend.Spec) (backend.Process, error) {
	if i.d.start != nil {
		return i.d.start(ctx, spec, i.Instance)
	}
	p, err := i.Instance.Start(ctx, spec)
	if err == nil && i.d.process != nil {
		p = i.d.process(p)
	}
	return p, err
}

func (i *decoratedInstance) Destroy(ctx context.Context) error {
	if i.d.destroy != nil {
		return i.d.destroy(ctx, i.Instance)
	}
	return i.Instance.Destroy(ctx)
}

// stuck is a process of which some methods do not return until it is let go.
type stuck struct {
	backend.Process
	until                       <-chan struct{}
	kill, wait, signal, discard bool
}

func (s *stuck) hold(method bool) {
	if method {
		<-s.until
	}
}

func (s *stuck) Kill() error {
	s.hold(s.kill)
	return s.Process.Kill()
}

func (s *stuck) Exited() <-chan struct{} {
	if s.wait {
		return s.until
	}
	return s.Process.Exited()
}

func (s *stuck) Signal(ctx context.Context, sig backend.Signal) error {
	s.hold(s.signal)
	return s.Process.Signal(ctx, sig)
}

func (s *stuck) DiscardOutput() {
	s.hold(s.discard)
	s.Process.DiscardOutput()
}

// slack is what a record may take beyond what is promised, for the answer to come.
const slack = 2 * time.Second

// A backend whose calls do not return holds no record for longer than a kill may take,
// and the record says that the outcome is not known.
func TestABackendThatDoesNotAnswerHoldsNoRecord(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stuck stuck
		cmd   sandbox.Command
		err   error
		after time.Duration // of the record
	}{
		{"kill", stuck{kill: true}, sandbox.Command{Timeout: time.Minute}, sandbox.ErrLost, time.Minute + 10*time.Second},
		{"wait", stuck{wait: true}, sandbox.Command{Timeout: time.Minute}, sandbox.ErrLost, time.Minute + 10*time.Second},
		{"signal", stuck{signal: true}, sandbox.Command{Timeout: time.Minute, Grace: 5 * time.Second}, nil, time.Minute + 5*time.Second},
		{"all", stuck{signal: true, kill: true, wait: true}, sandbox.Command{Timeout: time.Minute, Grace: 5 * time.Second}, sandbox.ErrLost, time.Minute + 15*time.Second},
		{"discard", stuck{discard: true}, sandbox.Command{Shell: "short", Wait: sandbox.WaitExit}, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := fake.New(nil)
				b.Handle("cmd", func(p *fake.Process) int {
					io.WriteString(p.Stdout, "x")
					p.Sleep(time.Hour)
					return 0
				})
				b.Handle("short", fake.Result(0, "x", ""))
				until := make(chan struct{})
				d := &decorated{Backend: b, process: func(p backend.Process) backend.Process {
					s := tt.stuck
					s.Process, s.until = p, until
					return &s
				}}
				sb, err := sandbox.New(t.Context(), d, nil)
				if err != nil {
					t.Fatal(err)
				}
				if tt.cmd.Shell == "" {
					tt.cmd.Shell = "cmd"
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				ex, err := sb.Start(ctx, tt.cmd)
				if err != nil {
					t.Fatal(err)
				}
				rec, err := ex.Wait(ctx)
				if err != nil {
					t.Fatalf("the record is not final after an hour: %v", err)
				}
				if !errors.Is(rec.Err, tt.err) || rec.Err != nil && tt.err == nil {
					t.Errorf("its error is %v, want %v", rec.Err, tt.err)
				}
				if rec.Duration < tt.after || rec.Duration > tt.after+slack {
					t.Errorf("the record was final after %v, want %v", rec.Duration, tt.after)
				}
				if rec.Stdout.String() != "x" {
					t.Errorf("it kept %q", rec.Stdout)
				}
				if err := ex.Cancel(t.Context()); !errors.Is(err, tt.err) {
					t.Errorf("Cancel afterwards gave %v, want %v", err, tt.err)
				}
				close(until)
				synctest.Wait()
				if err := errors.Join(sb.Close(context.Background()), b.Close(context.Background())); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A start that does not come back holds neither the caller nor the record, and what it
// starts after all is killed, unheard.
func TestAStartThatDoesNotAnswer(t *testing.T) {
	for _, end := range []string{"timeout", "cancel", "context", "close", "gone"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := fake.New(nil)
				var alive atomic.Bool
				b.Handle("cmd", func(p *fake.Process) int {
					alive.Store(true)
					defer alive.Store(false)
					io.WriteString(p.Stdout, "late")
					p.Sleep(time.Hour)
					return 0
				})
				d := &decorated{Backend: b, start: func(ctx context.Context, spec *backend.Spec, i backend.Instance) (backend.Process, error) {
					time.Sleep(time.Hour)
					return i.Start(context.WithoutCancel(ctx), spec)
				}}
				sb, err := sandbox.New(t.Context(), d, nil)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				cmd := sandbox.Command{Shell: "cmd"}
				want := sandbox.Cancelled
				var closed error
				switch end {
				case "timeout":
					cmd.Timeout, want = time.Minute, sandbox.TimedOut
				case "cancel":
					time.AfterFunc(time.Minute, func() { sb.Execs()[0].Cancel(t.Context()) })
				case "context":
					time.AfterFunc(time.Minute, cancel)
				case "close":
					time.AfterFunc(time.Minute, func() { closed = sb.Close(context.Background()) })
				case "gone":
					want = sandbox.Failed
					time.AfterFunc(time.Minute, func() { b.Lose(sb.ID()) })
				}
				began := time.Now()
				rec, err := sb.Run(ctx, cmd)
				if err != nil {
					t.Fatal(err)
				}
				if rec.Status != want || !errors.Is(rec.Err, sandbox.ErrLost) {
					t.Errorf("%s with the error %v, want %s with ErrLost", rec.Status, rec.Err, want)
				}
				if took := time.Since(began); took > time.Minute+10*time.Second+slack {
					t.Errorf("it took %v", took)
				}
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if alive.Load() {
					t.Error("what was started late is alive")
				}
				if len(sb.Execs()) > 0 {
					if got := sb.Execs()[0].Execution(); got.Stdout.Total != 0 {
						t.Errorf("the record has %q of what was started late", got.Stdout)
					}
				}
				if err := errors.Join(closed, sb.Close(context.Background()), b.Close(context.Background())); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// When a start is told to end, the record says that nothing is left only if the backend
// does.
func TestAStartThatEndsWithItsContext(t *testing.T) {
	broken := errors.New("the engine does not answer")
	survivors := &backend.SurvivorsError{Survivors: []backend.Survivor{{PID: 7, Name: "x"}}}
	for _, tt := range []struct {
		name  string
		start func(context.Context) error
		want  error
	}{
		{"context-error", func(ctx context.Context) error { return ctx.Err() }, nil},
		{"context-cause", context.Cause, nil},
		{"start-error", func(context.Context) error { return &backend.StartError{Reason: backend.NotFound} }, nil},
		{"gone", func(context.Context) error { return backend.ErrGone }, nil},
		{"survivors", func(context.Context) error { return survivors }, survivors},
		{"unknown", func(context.Context) error { return broken }, sandbox.ErrLost},
		{"unknown-because-of-it", func(ctx context.Context) error { return errors.Join(broken, ctx.Err()) }, sandbox.ErrLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := fake.New(&fake.Options{Start: func(ctx context.Context, _ *fake.Command) error {
					<-ctx.Done()
					return tt.start(ctx)
				}})
				sb, stop := newSandbox(t, b, nil)
				defer stop()
				rec, err := sb.Run(t.Context(), sandbox.Command{Shell: "cmd", Timeout: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				if rec.Status != sandbox.TimedOut || !errors.Is(rec.Err, tt.want) || tt.want == nil && rec.Err != nil {
					t.Errorf("%s with the error %v, want timeout with %v", rec.Status, rec.Err, tt.want)
				}
			})
		})
	}
}

// A start that a dead sandbox never got is an error, and no execution: neither when the
// backend knows of the death before this package, nor when it comes in the middle.
func TestAStartInASandboxThatIsGone(t *testing.T) {
	for _, when := range []string{"before", "during"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := fake.New(nil)
				d := &decorated{Backend: b, start: func(_ context.Context, _ *backend.Spec, i backend.Instance) (backend.Process, error) {
					time.Sleep(time.Second)
					if when == "during" {
						<-i.Gone()
						time.Sleep(time.Second)
					}
					return nil, fmt.Errorf("driver: %w", backend.ErrGone)
				}}
				var observed atomic.Int64
				sb, err := sandbox.New(t.Context(), d, &sandbox.Options{Observer: faketest.Records(func(sandbox.Key, *sandbox.Execution) { observed.Add(1) })})
				if err != nil {
					t.Fatal(err)
				}
				if when == "during" {
					time.AfterFunc(2*time.Second, func() { b.Lose(sb.ID()) })
				}
				cmd := sandbox.Command{Shell: "cmd", Key: "key"}
				time.AfterFunc(500*time.Millisecond, func() {
					ex, err := sb.Start(t.Context(), cmd)
					if err != nil {
						t.Errorf("the second with the key: %v", err)
						return
					}
					rec, err := ex.Wait(t.Context())
					if err != nil || rec.Status != sandbox.Failed || !errors.Is(rec.Err, sandbox.ErrGone) || errors.Is(rec.Err, sandbox.ErrLost) {
						t.Errorf("its record is %+v, error %v", rec, err)
					}
				})
				ex, stream, err := sb.Follow(t.Context(), cmd)
				if ex != nil || stream != nil || !errors.Is(err, sandbox.ErrGone) || errors.Is(err, sandbox.ErrLost) {
					t.Errorf("got %v, %v and the error %v, want %v", ex, stream, err, sandbox.ErrGone)
				}
				synctest.Wait()
				if n := len(sb.Execs()); n > 0 || observed.Load() > 0 {
					t.Errorf("there are %d records, %d were observed", n, observed.Load())
				}
				select {
				case <-sb.Gone():
				default:
					t.Error("the sandbox goes on")
				}
				if _, err := sb.Run(t.Context(), sandbox.Command{Shell: "cmd"}); !errors.Is(err, sandbox.ErrGone) {
					t.Errorf("the next gave %v", err)
				}
				if err := errors.Join(sb.Close(context.Background()), b.Close(context.Background())); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestCancelTellsWhatAnotherKillHasLeft(t *testing.T) {
	linger := func(p *fake.Process) int { p.Linger(20 * time.Second); p.Sleep(time.Hour); return 0 }
	bubble(t, linger, func(t *testing.T, sb sandbox.Sandbox) {
		ex := start(t, sb, sandbox.Command{Timeout: time.Second})
		time.Sleep(5 * time.Second) // in the middle of the timeout's kill
		var survivors *sandbox.SurvivorsError
		for range 2 {
			if err := ex.Cancel(t.Context()); !errors.As(err, &survivors) {
				t.Errorf("Cancel gave %v, want the survivors", err)
			}
		}
		if got := ex.Execution().Status; got != sandbox.TimedOut {
			t.Errorf("the record is %s, want timeout", got)
		}
		time.Sleep(time.Minute)
	})
}

func TestCloseIsBoundByItsContextAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fake.New(nil)
		d := &decorated{Backend: b, destroy: func(ctx context.Context, i backend.Instance) error {
			time.Sleep(time.Hour)
			return i.Destroy(context.WithoutCancel(ctx))
		}}
		sb, err := sandbox.New(t.Context(), d, nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := sb.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close gave %v, want its context's error", err)
		}
		if took := time.Since(began); took > time.Minute+slack {
			t.Errorf("Close took %v", took)
		}
		if err := sb.Close(context.Background()); err != nil { // waits for the first
			t.Errorf("the second Close: %v", err)
		}
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// causes is an error that cannot be compared.
type causes []string

func (c causes) Error() string { return strings.Join(c, ", ") }

// The cause of a context may be an error of any type.
func TestACauseThatCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fake.New(&fake.Options{Start: func(ctx context.Context, _ *fake.Command) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}})
		sb, stop := newSandbox(t, b, nil)
		defer stop()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(causes{"a", "b"}) })
		if rec, err := sb.Run(ctx, sandbox.Command{Shell: "cmd"}); err != nil || rec.Status != sandbox.Cancelled {
			t.Errorf("got %v, %v, want a record that says cancelled", rec, err)
		}
	})
}

// deaf is a backend whose Create heeds no context.
type deaf struct {
	*decorated
	until chan struct{}
}

func (d *deaf) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	<-d.until
	return d.decorated.Create(context.WithoutCancel(ctx), cfg)
}

// A Create that heeds no context holds nobody, and what it makes late is destroyed.
func TestACreateThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fake.New(nil)
		var destroyed atomic.Int64
		d := &deaf{&decorated{Backend: b, destroy: func(ctx context.Context, i backend.Instance) error {
			destroyed.Add(1)
			return i.Destroy(ctx)
		}}, make(chan struct{})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := sandbox.New(ctx, d, nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		if took := time.Since(began); took > 31*time.Second {
			t.Errorf("it took %v", took)
		}
		close(d.until)
		synctest.Wait()
		if n := destroyed.Load(); n != 1 {
			t.Errorf("what was made late was destroyed %d times, want once", n)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
