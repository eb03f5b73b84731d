package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-go/sandbox"
)

// traceKey is that of the value by which a test's contexts are told apart.
type traceKey struct{}

func traced(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, traceKey{}, name)
}

// A diary is an observer that writes down what it is told, each with the trace of its
// context.
type diary struct {
	began time.Time

	mu    sync.Mutex // guards lines
	lines []string
}

func (d *diary) write(ctx context.Context, e sandbox.SandboxEvent, format string, args ...any) {
	if ctx.Err() != nil {
		format += " with a context that has ended"
	}
	trace, _ := ctx.Value(traceKey{}).(string)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf("%v %s %s [%s] ", e.Time.Sub(d.began), e.Key.Name, e.Info.Status, trace)+fmt.Sprintf(format, args...))
}

// A diarist is the observer of a diary.
type diarist struct {
	sandbox.NopObserver
	*diary
}

func (d diarist) SandboxCreated(ctx context.Context, e sandbox.SandboxEvent) {
	d.write(ctx, e, "created, labels %v", e.Info.Labels)
}
func (d diarist) SandboxRecovered(ctx context.Context, e sandbox.SandboxEvent) {
	d.write(ctx, e, "recovered, labels %v", e.Info.Labels)
}
func (d diarist) SandboxDied(ctx context.Context, e sandbox.SandboxEvent) { d.write(ctx, e, "died") }
func (d diarist) SandboxExpired(ctx context.Context, e sandbox.SandboxEvent) {
	d.write(ctx, e, "expired")
}
func (d diarist) SandboxRemoved(ctx context.Context, e sandbox.SandboxEvent) {
	d.write(ctx, e, "removed")
}
func (d diarist) StartWaited(ctx context.Context, e sandbox.WaitEvent) {
	d.write(ctx, e.SandboxEvent, "waited %v: %v", e.Waited, e.Err)
}
func (d diarist) ExecutionStarted(ctx context.Context, e sandbox.ExecutionEvent) context.Context {
	d.write(ctx, e.SandboxEvent, "%s is %s", e.Execution.Command.Shell, e.Execution.Status)
	return traced(ctx, e.Execution.Command.Shell)
}
func (d diarist) ExecutionEnded(ctx context.Context, e sandbox.ExecutionEvent) {
	d.write(ctx, e.SandboxEvent, "%s is %s", e.Execution.Command.Shell, e.Execution.Status)
}

func (d *diary) check(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if diff := cmp.Diff(want, d.lines); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
	d.lines = nil
}

func TestAManagersObserver(t *testing.T) {
	d := &diary{}
	opts := &sandbox.ManagerOptions{Observer: diarist{diary: d}, MaxRunningPerSandbox: 1, MaxWait: 10 * time.Second, IdleTime: time.Hour}
	b := sleepy(nil)
	managed(t, b, opts, func(t *testing.T, m *sandbox.Manager) {
		d.began = time.Now()
		asked, cancel := context.WithCancel(traced(t.Context(), "create"))
		sb, err := m.Create(asked, key("n"), &sandbox.CreateOptions{Config: sandbox.Config{Labels: map[string]string{"a": "b"}}})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		d.check(t, "0s n running [create] created, labels map[a:b]")

		asked, cancel = context.WithCancel(traced(t.Context(), "ask"))
		if _, err := sb.Start(traced(t.Context(), "first"), sandbox.Command{Shell: "sleep 5s"}); err != nil {
			t.Fatal(err)
		}
		if _, err := sb.Start(asked, sandbox.Command{Shell: "sleep 1h"}); err != nil {
			t.Fatal(err)
		}
		if _, err := sb.Start(traced(t.Context(), "third"), sandbox.Command{Shell: "sleep 2s"}); !errors.Is(err, sandbox.ErrLimit) {
			t.Errorf("the third start gave %v", err)
		}
		cancel()
		d.check(t,
			"0s n running [first] sleep 5s is running",
			"5s n running [sleep 5s] sleep 5s is completed",
			"5s n running [ask] waited 5s: <nil>",
			"5s n running [ask] sleep 1h is running",
			"15s n running [third] waited 10s: limit of 1 running executions in one sandbox reached",
			"15s n running [sleep 1h] sleep 1h is cancelled",
		)

		if _, err := sb.Run(traced(t.Context(), "run"), sandbox.Command{Argv: []string{"missing"}}); err != nil {
			t.Fatal(err)
		}
		d.check(t, "15s n running [run]  is failed")

		time.Sleep(time.Hour)
		d.check(t, "1h0m15s n running [] expired", "1h0m15s n closed [] removed")

		sb, err = m.GetOrCreate(traced(t.Context(), "use"), key("n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		b.Lose(sb.ID())
		d.check(t, "1h0m15s n running [use] created, labels map[]", "1h0m15s n failed [] died")
		if err := m.Remove(traced(t.Context(), "remove"), key("n")); err != nil {
			t.Fatal(err)
		}
		d.check(t, "1h0m15s n closed [remove] removed")
	})
}

// A sandbox that its user has closed is removed already: it does not expire, too.
func TestAClosedSandboxIsNotObservedToExpire(t *testing.T) {
	d := &diary{}
	managed(t, sleepy(nil), &sandbox.ManagerOptions{Observer: diarist{diary: d}, IdleTime: time.Hour}, func(t *testing.T, m *sandbox.Manager) {
		d.began = time.Now()
		if err := create(t, m, "n", nil).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.check(t, "0s n running [] created, labels map[]", "0s n closed [] removed")
		time.Sleep(2 * time.Hour)
		d.check(t)
		if _, err := m.Get(key("n")); !errors.Is(err, sandbox.ErrNotFound) {
			t.Errorf("after its idle time it is still there: %v", err)
		}
	})
}

func TestARecoveredSandboxIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &keeping{Backend: sleepy(nil)}
		crashed := sandbox.NewManager(b, nil)
		create(t, crashed, "n", nil)
		d := &diary{began: time.Now()}
		m := sandbox.NewManager(b, &sandbox.ManagerOptions{Observer: diarist{diary: d}})
		if err := m.Recover(traced(t.Context(), "recover")); err != nil {
			t.Fatal(err)
		}
		d.check(t, "0s n running [recover] recovered, labels map[]")
		if err := m.Close(traced(t.Context(), "close")); err != nil {
			t.Error(err)
		}
		d.check(t, "0s n closed [close] removed")
		if err := errors.Join(crashed.Close(context.Background()), b.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
}

// A sandbox of New is observed as a Manager's are, and Close has told everything.
func TestASandboxesOwnObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{began: time.Now()}
		b := sleepy(nil)
		sb, err := sandbox.New(traced(t.Context(), "new"), b, &sandbox.Options{Observer: diarist{diary: d}})
		if err != nil {
			t.Fatal(err)
		}
		run(t, sb, "sleep 1s")
		for range 2 {
			if err := sb.Close(traced(context.Background(), "close")); err != nil {
				t.Error(err)
			}
		}
		want := []string{
			"0s  running [new] created, labels map[]",
			"0s  running [] sleep 1s is running",
			"1s  running [sleep 1s] sleep 1s is completed",
			"1s  closed [close] removed",
		}
		if diff := cmp.Diff(want, d.lines); diff != "" {
			t.Errorf("observed (-want +got):\n%s", diff)
		}
		b.Close(context.Background())
	})
}

// A panic where a context would be returned leaves the one that there was.
func TestAnObserverWithoutAContext(t *testing.T) {
	for name, end := range map[string]func() context.Context{
		"nil":   func() context.Context { return nil },
		"panic": func() context.Context { panic("observer") },
	} {
		t.Run(name, func(t *testing.T) {
			o := &forgetful{end: end}
			managed(t, sleepy(nil), &sandbox.ManagerOptions{Observer: o}, func(t *testing.T, m *sandbox.Manager) {
				if _, err := create(t, m, "n", nil).Run(traced(t.Context(), "run"), sandbox.Command{Shell: "sleep 1s"}); err != nil {
					t.Fatal(err)
				}
			})
			if o.trace != "run" {
				t.Errorf("the end has the trace %v, want run", o.trace)
			}
		})
	}
}

type forgetful struct {
	sandbox.NopObserver
	end   func() context.Context
	trace any
}

func (f *forgetful) ExecutionStarted(context.Context, sandbox.ExecutionEvent) context.Context {
	return f.end()
}

func (f *forgetful) ExecutionEnded(ctx context.Context, _ sandbox.ExecutionEvent) {
	f.trace = ctx.Value(traceKey{})
}
