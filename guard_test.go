package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/fake"
	"github.com/sandbox-go/sandbox/internal/faketest"
)

// A slow observer delays neither an execution nor another one, and sees everything in
// its order.
func TestASlowObserverDelaysNothing(t *testing.T) {
	var seen []string
	opts := &sandbox.ManagerOptions{Observer: faketest.Records(func(_ sandbox.Key, e *sandbox.Execution) {
		time.Sleep(30 * time.Second)
		seen = append(seen, fmt.Sprintf("%s %s", e.Command.Shell, e.Status))
	})}
	managed(t, sleepy(nil), opts, func(t *testing.T, m *sandbox.Manager) {
		sb := create(t, m, "n", nil)
		for _, cmd := range []sandbox.Command{{Shell: "sleep 1h", Timeout: time.Second}, {Shell: "sleep 1s"}} {
			began := time.Now()
			rec, err := sb.Run(t.Context(), cmd)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != time.Second || rec.Duration != time.Second {
				t.Errorf("%s took %v and says %v, want 1 s", cmd.Shell, took, rec.Duration)
			}
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		want := "sleep 1h running, sleep 1h timeout, sleep 1s running, sleep 1s completed"
		if got := strings.Join(seen, ", "); got != want {
			t.Errorf("observed %s, want %s", got, want)
		}
	})
}

func TestCloseWaitsForTheObserver(t *testing.T) {
	for _, tt := range []struct{ delay, took time.Duration }{{time.Second, 2 * time.Second}, {time.Hour, 10 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			seen := 0
			b := sleepy(nil)
			sb, err := sandbox.New(t.Context(), b, &sandbox.Options{
				Observer: faketest.Records(func(sandbox.Key, *sandbox.Execution) { time.Sleep(tt.delay); seen++ }),
				Logger:   slog.New(slog.NewTextHandler(&log, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			run(t, sb, "true")
			began := time.Now()
			if err := errors.Join(sb.Close(context.Background()), b.Close(context.Background())); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took != tt.took {
				t.Errorf("Close with an observer that takes %v took %v, want %v", tt.delay, took, tt.took)
			}
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			if seen != 2 {
				t.Errorf("%d records were shown, want 2", seen)
			}
			if told := log.Len() > 0; told != (tt.delay > time.Minute) {
				t.Errorf("the log says %q", log.String())
			}
		})
	}
}

// What there is no room for is counted and logged, and the newest execution still
// starts and ends.
func TestAStuckObserverIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		until := make(chan struct{})
		seen := 0
		b := sleepy(nil)
		sb, stop := newSandbox(t, b, &sandbox.Options{
			Observer: faketest.Records(func(sandbox.Key, *sandbox.Execution) { <-until; seen++ }),
			Logger:   slog.New(slog.NewTextHandler(&log, nil)),
		})
		defer stop()
		const runs = 3000
		for range runs {
			run(t, sb, "true")
		}
		close(until)
		synctest.Wait()
		missed := 2*runs - seen
		if missed <= 0 || !strings.Contains(log.String(), fmt.Sprintf("events=%d\n", missed)) {
			t.Errorf("%d records were not shown; the log says %q", missed, log.String())
		}
	})
}

func TestAnObserverThatPanicsOrEndsItsGoroutine(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("observer") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			panicky := slog.New(panickyHandler{slog.DiscardHandler})
			opts := &sandbox.ManagerOptions{Logger: panicky, Observer: faketest.Records(func(sandbox.Key, *sandbox.Execution) { seen++; end() })}
			managed(t, sleepy(nil), opts, func(t *testing.T, m *sandbox.Manager) {
				sb := create(t, m, "n", nil)
				for range 2 {
					if rec := run(t, sb, "sleep 1s"); rec.Status != sandbox.Completed {
						t.Errorf("%s", rec.Status)
					}
				}
				synctest.Wait()
				if seen != 4 {
					t.Errorf("%d records were shown, want 4", seen)
				}
			})
		})
	}
}

// panickyHandler is a log handler that panics.
type panickyHandler struct{ slog.Handler }

func (panickyHandler) Enabled(context.Context, slog.Level) bool { panic("logger") }

func TestALoggerThatPanicsInARemoval(t *testing.T) {
	failed := false
	b := fake.New(&fake.Options{Destroy: func(context.Context, string) error {
		if !failed {
			failed = true
			return errors.New("the engine is away")
		}
		return nil
	}})
	opts := &sandbox.ManagerOptions{IdleTime: time.Minute, Logger: slog.New(panickyHandler{slog.DiscardHandler})}
	managed(t, b, opts, func(t *testing.T, m *sandbox.Manager) {
		create(t, m, "n", nil)
		time.Sleep(5 * time.Minute)
		if left := b.Sandboxes(); len(left) > 0 {
			t.Errorf("after a removal that failed there is still %v", left)
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// An input that fails or panics ends the command's input, and the record says why. One
// that blocks holds nothing.
func TestAStdinThatFails(t *testing.T) {
	broken := errors.New("the upload broke off")
	until := make(chan struct{})
	defer close(until)
	for _, tt := range []struct {
		name string
		rest io.Reader
		want string
	}{
		{"fails", iotest.ErrReader(broken), "the upload broke off"},
		{"panics", readerFunc(func([]byte) (int, error) { panic(broken) }), "panic: the upload broke off"},
		{"lies", readerFunc(func(p []byte) (int, error) { return len(p) + 1, nil }), "the reader claims to have read 32769 of 32768 bytes"},
		{"ends", strings.NewReader(""), ""},
	} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/open-%t", tt.name, open), func(t *testing.T) {
				cat := func(p *fake.Process) int { io.Copy(p.Stdout, p.Stdin); return 0 }
				bubble(t, cat, func(t *testing.T, sb sandbox.Sandbox) {
					rest := tt.rest
					if tt.name == "ends" {
						rest = strings.NewReader("")
					}
					ex := start(t, sb, sandbox.Command{Stdin: io.MultiReader(strings.NewReader("abc"), rest), OpenStdin: open, Timeout: time.Minute})
					if open {
						synctest.Wait()
						_, err := ex.WriteStdin(t.Context(), []byte("more"))
						if failed := err != nil; failed != (tt.want != "") {
							t.Errorf("WriteStdin after it gave %v", err)
						}
						ex.CloseStdin(t.Context())
					}
					rec := wait(t, ex)
					if rec.Status != sandbox.Completed || !strings.HasPrefix(rec.Stdout.String(), "abc") {
						t.Errorf("%s with %q", rec.Status, rec.Stdout)
					}
					got := ""
					if rec.StdinErr != nil {
						got = rec.StdinErr.Error()
					}
					if got != tt.want {
						t.Errorf("the record says %q of its input, want %q", got, tt.want)
					}
					if tt.want != "" && tt.name != "lies" && !errors.Is(rec.StdinErr, broken) {
						t.Errorf("%v does not wrap its cause", rec.StdinErr)
					}
				})
			})
		}
	}
}

func TestAStdinThatBlocksHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		b := fake.New(nil)
		b.Handle("true", fake.Result(0, "", ""))
		b.Handle("cat", func(p *fake.Process) int { io.Copy(p.Stdout, p.Stdin); return 0 })
		sb, stop := newSandbox(t, b, nil)
		for _, open := range []bool{false, true} {
			for text, want := range map[string]sandbox.Status{"true": sandbox.Completed, "cat": sandbox.TimedOut} {
				blocks := readerFunc(func([]byte) (int, error) { <-until; return 0, io.EOF })
				rec, err := sb.Run(t.Context(), sandbox.Command{Shell: text, Stdin: blocks, OpenStdin: open, Timeout: time.Second})
				if err != nil || rec.Status != want || rec.Duration > time.Second || rec.StdinErr != nil {
					t.Errorf("%s is %s after %v, %v", text, rec.Status, rec.Duration, err)
				}
			}
		}
		stop()
		close(until)
	})
}

// The panic of the function that gives a Config is that of everybody who waits, and
// the key is free again.
func TestAConfigThatPanics(t *testing.T) {
	for _, value := range []any{"no config", http.ErrAbortHandler} {
		managed(t, fake.New(nil), &sandbox.ManagerOptions{MaxSandboxes: 1}, func(t *testing.T, m *sandbox.Manager) {
			var callers sync.WaitGroup
			for range 3 {
				callers.Go(func() {
					defer func() {
						if got := recover(); got != value {
							t.Errorf("a caller recovered %v, want %v", got, value)
						}
					}()
					m.GetOrCreate(t.Context(), key("n"), func(context.Context) (*sandbox.CreateOptions, error) {
						time.Sleep(time.Second)
						panic(value)
					})
				})
			}
			callers.Wait()
			_, err := m.GetOrCreate(t.Context(), key("n"), func(context.Context) (*sandbox.CreateOptions, error) {
				runtime.Goexit()
				return nil, nil
			})
			if err == nil {
				t.Error("a config that ended its goroutine gave a sandbox")
			}
			if _, err := m.GetOrCreate(t.Context(), key("n"), nil); err != nil {
				t.Errorf("GetOrCreate afterwards: %v", err)
			}
		})
	}
}

// Reading what is written to a sandbox's files is done for the user too.
func TestAContentThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sb, stop := newSandbox(t, fake.New(nil), nil)
		defer stop()
		broken := errors.New("broken")
		panics := func() io.Reader { return readerFunc(func([]byte) (int, error) { panic(broken) }) }
		if err := sb.Files().WriteFrom(t.Context(), "f", panics(), nil); !errors.Is(err, broken) {
			t.Errorf("Write gave %v, want the panic", err)
		}
		if err := sb.Files().WriteTar(t.Context(), ".", panics()); err == nil {
			t.Error("WriteTar gave no error")
		}
	})
}

// A consumer of a stream that is slow, or does not come back, holds the command that
// it reads, and that until its timeout only.
func TestASlowConsumerDelaysNoTimeout(t *testing.T) {
	pour := func(p *fake.Process) int {
		for {
			p.Stdout.Write(make([]byte, 32<<10))
		}
	}
	bubble(t, pour, func(t *testing.T, sb sandbox.Sandbox) {
		ex, s, err := sb.Follow(t.Context(), sandbox.Command{Shell: "cmd", Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if rec := ex.Execution(); rec.Status != sandbox.TimedOut || rec.Duration != time.Second || rec.Err != nil {
			t.Errorf("%s after %v, %v; want timeout after 1 s", rec.Status, rec.Duration, rec.Err)
		}
	})
}

// Whoever waits for a key waits without a slot, with his own context, and nothing of
// him is left.
func TestManyStartsWithOneKey(t *testing.T) {
	opts := &sandbox.ManagerOptions{MaxRunning: 8, MaxRunningPerSandbox: 1, MaxWait: time.Minute}
	managed(t, sleepy(nil), opts, func(t *testing.T, m *sandbox.Manager) {
		sb := create(t, m, "n", nil)
		first, err := sb.Start(t.Context(), sandbox.Command{Shell: "sleep 30s"})
		if err != nil {
			t.Fatal(err)
		}
		ctx := &countingContext{Context: t.Context(), children: make(map[any]bool)}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var callers sync.WaitGroup
		var mu sync.Mutex
		ids := make(map[string]int)
		for i := range 2000 {
			callers.Go(func() {
				cmd := sandbox.Command{Shell: "sleep 10s", Key: "k", Timeout: time.Hour}
				if i%10 == 0 { // among them perhaps the first to ask
					if _, err := sb.Start(impatient, cmd); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("a start whose context ended gave %v", err)
					}
					return
				}
				ex, err := sb.Start(ctx, cmd)
				if err != nil {
					t.Errorf("start: %v", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ids[ex.ID()]++
			})
		}
		callers.Wait()
		if len(ids) != 1 {
			t.Errorf("one key gave %d executions", len(ids))
		}
		if n := len(sb.Execs()); n != 2 {
			t.Errorf("there are %d executions, want 2", n)
		}
		if n := ctx.pending(); n > 2 {
			t.Errorf("%d contexts are left of the starts, want those of the one that runs", n)
		}
		for _, ex := range sb.Execs() {
			wait(t, ex)
		}
		_ = first
		if n := ctx.pending(); n != 0 {
			t.Errorf("%d contexts are left at the end", n)
		}
	})
}

// A countingContext knows the functions that wait for its end.
type countingContext struct {
	context.Context
	mu       sync.Mutex
	children map[any]bool
}

// Done is a channel of its own, so that package context uses AfterFunc.
func (c *countingContext) Done() <-chan struct{} { return make(chan struct{}) }

func (c *countingContext) AfterFunc(func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := new(int)
	c.children[key] = true
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		pending := c.children[key]
		delete(c.children, key)
		return pending
	}
}

func (c *countingContext) pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.children)
}

func TestCreationsDuringClose(t *testing.T) {
	slow := fake.New(&fake.Options{Create: func(ctx context.Context, _ *backend.Config) error {
		<-ctx.Done()
		time.Sleep(time.Second)
		return ctx.Err()
	}})
	managed(t, slow, nil, func(t *testing.T, m *sandbox.Manager) {
		var callers sync.WaitGroup
		check := func(what string, err error) {
			if !errors.Is(err, sandbox.ErrClosed) {
				t.Errorf("%s during Close gave %v, want ErrClosed", what, err)
			}
		}
		callers.Go(func() {
			_, err := m.Create(t.Context(), key("a"), nil)
			check("Create", err)
		})
		for range 3 {
			callers.Go(func() {
				_, err := m.GetOrCreate(t.Context(), key("b"), nil)
				check("GetOrCreate", err)
			})
		}
		callers.Go(func() {
			_, err := m.GetOrCreate(t.Context(), key("c"), func(ctx context.Context) (*sandbox.CreateOptions, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			check("GetOrCreate that asks for its Config", err)
		})
		synctest.Wait()
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
		callers.Wait()
	})
}
