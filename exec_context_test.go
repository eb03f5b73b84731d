package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/fake"
)

// acts are the calls that act on a running command.
var acts = map[string]func(context.Context, sandbox.Exec) error{
	"signal": func(ctx context.Context, ex sandbox.Exec) error { return ex.Signal(ctx, backend.SIGCONT) },
	"resize": func(ctx context.Context, ex sandbox.Exec) error { return ex.Resize(ctx, sandbox.TerminalSize{}) },
	"cancel": func(ctx context.Context, ex sandbox.Exec) error { return ex.Cancel(ctx) },
}

// mute is a process on a terminal that answers nothing until it is let go.
type mute struct {
	backend.Process
	until <-chan struct{}
}

func (m *mute) Signal(ctx context.Context, s backend.Signal) error {
	<-m.until
	return m.Process.Signal(ctx, s)
}

func (m *mute) Resize(ctx context.Context, size backend.TerminalSize) error {
	<-m.until
	return m.Process.(backend.Resizer).Resize(ctx, size)
}

func (m *mute) Kill() error {
	<-m.until
	return m.Process.Kill()
}

// Whatever the backend does, a call ends with its context, and without one's end it is
// bounded.
func TestActsEndWithTheirContext(t *testing.T) {
	bounds := map[string]time.Duration{"signal": 12 * time.Second, "resize": 12 * time.Second, "cancel": 11 * time.Second}
	for name, act := range acts {
		for _, state := range []string{"mute", "starting"} {
			t.Run(fmt.Sprintf("%s-%s", name, state), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := fake.New(nil)
					b.Handle("cmd", func(p *fake.Process) int { p.Sleep(24 * time.Hour); return 0 })
					until := make(chan struct{})
					d := &decorated{Backend: b, process: func(p backend.Process) backend.Process { return &mute{p, until} }}
					if state == "starting" {
						d.start = func(ctx context.Context, spec *backend.Spec, i backend.Instance) (backend.Process, error) {
							<-until
							return i.Start(ctx, spec)
						}
					}
					sb, err := sandbox.New(t.Context(), d, nil)
					if err != nil {
						t.Fatal(err)
					}
					cmd := sandbox.Command{Shell: "cmd", Terminal: &sandbox.TerminalSize{}}
					go sb.Start(context.Background(), cmd)
					synctest.Wait()
					ex := sb.Execs()[0]

					ended, cancel := context.WithCancel(t.Context())
					cancel()
					if err := act(ended, ex); name != "cancel" && !errors.Is(err, context.Canceled) {
						t.Errorf("with a context that has ended: %v", err)
					}
					began := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					defer cancel()
					if err := act(ctx, ex); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("the context's end gave %v", err)
					}
					if took := time.Since(began); took > 4*time.Second {
						t.Errorf("it took %v, a second longer than its context and more", took)
					}
					if state == "mute" {
						began = time.Now()
						if err := act(context.Background(), ex); err == nil || errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("what was not answered gave %v, want an error that is not its context's", err)
						}
						if took := time.Since(began); took > bounds[name] {
							t.Errorf("without an end of its context it took %v, want at most %v", took, bounds[name])
						}
					}
					close(until)
					if err := errors.Join(sb.Close(context.Background()), b.Close(context.Background())); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// The end of its context ends the waiting of a Cancel, and not the kill.
func TestCancelGoesOnWithoutItsContext(t *testing.T) {
	for name, after := range map[string]time.Duration{"ended-before": 0, "ends-meanwhile": time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(p *fake.Process) int { p.Linger(5 * time.Second); p.Sleep(time.Hour); return 0 }, func(t *testing.T, sb sandbox.Sandbox) {
				ex := start(t, sb, sandbox.Command{})
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				if err := ex.Cancel(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Cancel gave %v, want its context's error", err)
				}
				if rec := wait(t, ex); rec.Status != sandbox.Cancelled || rec.Err != nil || rec.Duration != 5*time.Second {
					t.Errorf("%s after %v, %v", rec.Status, rec.Duration, rec.Err)
				}
				if err := ex.Cancel(ctx); err != nil {
					t.Errorf("Cancel of what is over gave %v", err)
				}
			})
		})
	}
}

func TestCloseStdinWaitsForWrites(t *testing.T) {
	handler := func(p *fake.Process) int { p.Sleep(time.Minute); return cat(p) }
	bubble(t, handler, func(t *testing.T, sb sandbox.Sandbox) {
		ex := start(t, sb, sandbox.Command{OpenStdin: true, MaxOutput: 4 << 20})
		data := strings.Repeat("x", 3<<20)
		go func() {
			if n, err := ex.WriteStdin(context.Background(), []byte(data)); n != len(data) || err != nil {
				t.Errorf("a close made a write end after %d bytes, %v", n, err)
			}
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := ex.CloseStdin(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("CloseStdin gave %v, want its context's error", err)
		}
		if err := ex.CloseStdin(t.Context()); err != nil {
			t.Error(err)
		}
		if rec := wait(t, ex); rec.Stdout.String() != data {
			t.Errorf("%d bytes arrived, want %d", rec.Stdout.Total, len(data))
		}
		if err := ex.CloseStdin(t.Context()); err != nil {
			t.Errorf("CloseStdin after the end gave %v", err)
		}
	})
}

// Why OpenStdin is asked for at the start: who reads an input that is open waits, and
// who reads one that is not sees its end, before it can be known whether anybody will
// write.
func TestAnInputIsOpenFromTheStartOrNever(t *testing.T) {
	read := func(p *fake.Process) int {
		if _, err := io.ReadFull(p.Stdin, make([]byte, 1)); err == io.EOF {
			return 1
		}
		return 0
	}
	bubble(t, read, func(t *testing.T, sb sandbox.Sandbox) {
		if rec := wait(t, start(t, sb, sandbox.Command{})); rec.Duration != 0 || *rec.ExitCode != 1 {
			t.Errorf("without an input it ended after %v with %d", rec.Duration, *rec.ExitCode)
		}
		if rec := wait(t, start(t, sb, sandbox.Command{OpenStdin: true, Timeout: time.Hour})); rec.Status != sandbox.TimedOut {
			t.Errorf("with an open input that nobody writes to it is %s", rec.Status)
		}
	})
}

// The name of a signal is read as it is written.
func TestParseSignal(t *testing.T) {
	for s := sandbox.Signal(1); s.Valid(); s++ {
		if got, err := sandbox.ParseSignal(s.String()); got != s || err != nil {
			t.Errorf("%v is read as %v, %v", s, got, err)
		}
	}
	if got, err := sandbox.ParseSignal("INT"); got != sandbox.SIGINT || err != nil {
		t.Errorf("INT is read as %v, %v", got, err)
	}
	for _, name := range []string{"", "SIG", "SIGNONE", "int", "65"} {
		if got, err := sandbox.ParseSignal(name); err == nil {
			t.Errorf("%q is read as %v", name, got)
		}
	}
}
