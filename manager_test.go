package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/fake"
	"github.com/sandbox-go/sandbox/internal/faketest"
)

// sleepy is a backend whose command "sleep D" sleeps for D, and whose command
// "print N" prints N bytes.
func sleepy(opts *fake.Options) *fake.Backend {
	b := fake.New(opts)
	b.HandleFunc(func(c *fake.Command) bool { return strings.HasPrefix(c.Shell, "sleep ") }, func(p *fake.Process) int {
		d, _ := time.ParseDuration(strings.TrimPrefix(p.Command().Shell, "sleep "))
		p.Sleep(d)
		return 0
	})
	b.HandleFunc(func(c *fake.Command) bool { return strings.HasPrefix(c.Shell, "print ") }, func(p *fake.Process) int {
		var n int
		fmt.Sscan(strings.TrimPrefix(p.Command().Shell, "print "), &n)
		p.Stdout.Write(numbered(n))
		return 0
	})
	return b
}

// managed runs f in a bubble with a manager, and checks that its Close leaves nothing.
func managed(t *testing.T, b *fake.Backend, opts *sandbox.ManagerOptions, f func(t *testing.T, m *sandbox.Manager)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := sandbox.NewManager(b, opts)
		f(t, m)
		if err := m.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if left := b.Sandboxes(); len(left) > 0 {
			t.Errorf("Close left %v", left)
		}
		b.Close(context.Background())
	})
}

func key(name string) sandbox.Key { return sandbox.Key{Owner: "o", Namespace: "a", Name: name} }

func create(t *testing.T, m *sandbox.Manager, name string, opts *sandbox.CreateOptions) sandbox.Sandbox {
	t.Helper()
	sb, err := m.Create(t.Context(), key(name), opts)
	if err != nil {
		t.Fatal(err)
	}
	return sb
}

func run(t *testing.T, sb sandbox.Sandbox, text string) *sandbox.Execution {
	t.Helper()
	rec, err := sb.Run(t.Context(), sandbox.Command{Shell: text})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestManagerScopesNames(t *testing.T) {
	managed(t, fake.New(nil), nil, func(t *testing.T, m *sandbox.Manager) {
		ids := make(map[string]bool)
		for _, k := range []sandbox.Key{{Owner: "o", Namespace: "a", Name: "n"}, {Owner: "p", Namespace: "a", Name: "n"}, {Owner: "o", Namespace: "b", Name: "n"}} {
			sb, err := m.GetOrCreate(t.Context(), k, nil)
			if err != nil {
				t.Fatal(err)
			}
			ids[sb.ID()] = true
		}
		if len(ids) != 3 {
			t.Errorf("three keys gave %d sandboxes", len(ids))
		}
		if _, err := m.Create(t.Context(), key("n"), nil); !errors.Is(err, sandbox.ErrExists) {
			t.Errorf("Create of a taken key gave %v, want ErrExists", err)
		}
		sb := create(t, m, "", nil)
		if got, err := m.Get(key(sb.ID())); err != nil || got != sb {
			t.Errorf("Get by the id gave %v, %v", got, err)
		}
		if err := m.Remove(t.Context(), key("n")); err != nil {
			t.Error(err)
		}
		if _, err := m.Get(key("n")); !errors.Is(err, sandbox.ErrNotFound) {
			t.Errorf("Get after Remove gave %v, want ErrNotFound", err)
		}
		if err := m.Remove(t.Context(), key("n")); !errors.Is(err, sandbox.ErrNotFound) {
			t.Errorf("the second Remove gave %v, want ErrNotFound", err)
		}
	})
}

func TestManagerCreatesOnce(t *testing.T) {
	var creations atomic.Int32
	slow := fake.New(&fake.Options{Create: func(ctx context.Context, _ *backend.Config) error {
		creations.Add(1)
		time.Sleep(time.Second)
		return ctx.Err()
	}})
	managed(t, slow, nil, func(t *testing.T, m *sandbox.Manager) {
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i == 0 { // the first to ask leaves: the others must not notice
					time.AfterFunc(time.Millisecond, cancel)
				}
				_, err := m.GetOrCreate(ctx, key("n"), nil)
				if i == 0 && !errors.Is(err, context.Canceled) || i > 0 && err != nil {
					t.Errorf("caller %d got %v", i, err)
				}
			})
		}
		wg.Wait()
		if n := creations.Load(); n != 1 {
			t.Errorf("%d creations, want 1", n)
		}
	})
}

func TestManagerGivesUpACreationThatNobodyWaitsFor(t *testing.T) {
	stuck := fake.New(&fake.Options{Create: func(ctx context.Context, _ *backend.Config) error {
		<-ctx.Done()
		return ctx.Err()
	}})
	managed(t, stuck, &sandbox.ManagerOptions{MaxSandboxes: 1}, func(t *testing.T, m *sandbox.Manager) {
		for range 2 { // the second finds the place free again
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := m.GetOrCreate(ctx, key("n"), nil)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("GetOrCreate gave %v, want its context's error", err)
			}
			synctest.Wait()
		}
	})
}

func TestManagerConfig(t *testing.T) {
	managed(t, fake.New(nil), nil, func(t *testing.T, m *sandbox.Manager) {
		refusal := errors.New("no such agent")
		_, err := m.GetOrCreate(t.Context(), key("n"), func(context.Context) (*sandbox.CreateOptions, error) { return nil, refusal })
		if !errors.Is(err, refusal) {
			t.Errorf("GetOrCreate gave %v, want the error of config", err)
		}
		sb, err := m.GetOrCreate(t.Context(), key("n"), func(context.Context) (*sandbox.CreateOptions, error) {
			return &sandbox.CreateOptions{Config: sandbox.Config{Labels: map[string]string{"size": "small"}}}, nil
		})
		if err != nil || sb.Info().Labels["size"] != "small" {
			t.Errorf("GetOrCreate after a refusal gave %v", err)
		}
	})
}

func TestManagerReplacesADeadSandbox(t *testing.T) {
	b := fake.New(nil)
	managed(t, b, nil, func(t *testing.T, m *sandbox.Manager) {
		first := create(t, m, "n", nil)
		b.Lose(first.ID())
		synctest.Wait()
		if got := first.Info().Status; got != sandbox.SandboxFailed {
			t.Errorf("a lost sandbox is %q, want failed", got)
		}
		if _, err := first.Run(t.Context(), sandbox.Command{Shell: "x"}); !errors.Is(err, sandbox.ErrGone) {
			t.Errorf("Run in a lost sandbox gave %v, want ErrGone", err)
		}
		second, err := m.GetOrCreate(t.Context(), key("n"), nil)
		if err != nil || second == first {
			t.Errorf("GetOrCreate gave the lost sandbox again (%v)", err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{second.ID()}, b.Sandboxes()); diff != "" {
			t.Errorf("the backend's sandboxes (-want +got):\n%s", diff)
		}
	})
}

func TestManagerExpiry(t *testing.T) {
	exists := func(m *sandbox.Manager, name string) bool {
		synctest.Wait()
		_, err := m.Get(key(name))
		return err == nil
	}
	opts := &sandbox.ManagerOptions{IdleTime: 10 * time.Minute, Lifetime: time.Hour}
	managed(t, sleepy(nil), opts, func(t *testing.T, m *sandbox.Manager) {
		create(t, m, "idle", nil)
		time.Sleep(10*time.Minute + time.Second)
		if exists(m, "idle") {
			t.Error("an idle sandbox was not removed")
		}

		busy := create(t, m, "busy", nil)
		run(t, busy, "sleep 35m")
		time.Sleep(9 * time.Minute)
		if !exists(m, "busy") {
			t.Error("a sandbox was removed while it ran, or too soon after")
		}
		time.Sleep(10*time.Minute + time.Second)
		if exists(m, "busy") {
			t.Error("a sandbox that had been busy was not removed when it was idle")
		}

		old := create(t, m, "old", nil)
		if got := old.Info().ExpiresAt.Sub(old.Info().CreatedAt); got != time.Hour {
			t.Errorf("a sandbox expires after %v, want an hour", got)
		}
		rec := run(t, old, "sleep 2h")
		if rec.Status != sandbox.Cancelled || rec.Duration != time.Hour {
			t.Errorf("the command of an expired sandbox is %s after %v, want cancelled after an hour", rec.Status, rec.Duration)
		}

		create(t, m, "own", &sandbox.CreateOptions{Config: sandbox.Config{Lifetime: time.Minute}})
		time.Sleep(time.Minute + time.Second)
		if exists(m, "own") {
			t.Error("a sandbox outlived its own lifetime")
		}
	})
}

func TestManagerNegativeTurnsALimitOff(t *testing.T) {
	managed(t, fake.New(nil), &sandbox.ManagerOptions{IdleTime: -1}, func(t *testing.T, m *sandbox.Manager) {
		create(t, m, "n", nil)
		time.Sleep(1000 * time.Hour)
		if _, err := m.Get(key("n")); err != nil {
			t.Error(err)
		}
	})
}

func TestManagerLimits(t *testing.T) {
	opts := &sandbox.ManagerOptions{MaxSandboxes: 2, MaxSandboxesPerOwner: -1, MaxRunning: 3, MaxRunningPerOwner: -1, MaxRunningPerSandbox: 2, MaxWait: time.Minute}
	managed(t, sleepy(nil), opts, func(t *testing.T, m *sandbox.Manager) {
		one, two := create(t, m, "1", nil), create(t, m, "2", nil)
		var limit *sandbox.LimitError
		if _, err := m.Create(t.Context(), key("3"), nil); !errors.As(err, &limit) || limit.Max != 2 {
			t.Errorf("the third of two sandboxes gave %v", err)
		}
		start := func(sb sandbox.Sandbox, text string) (time.Duration, error) {
			began := time.Now()
			_, err := sb.Start(t.Context(), sandbox.Command{Shell: text, Timeout: 2 * time.Minute})
			return time.Since(began), err
		}
		for _, text := range []string{"sleep 30s", "sleep 10m"} {
			if _, err := start(one, text); err != nil {
				t.Fatal(err)
			}
		}
		if waited, err := start(one, "sleep 100s"); err != nil || waited != 30*time.Second {
			t.Errorf("the third of two in a sandbox waited %v, %v; want 30 s", waited, err)
		}
		if _, err := start(two, "sleep 10m"); err != nil {
			t.Fatal(err)
		}
		waited, err := start(two, "sleep 1s")
		if !errors.As(err, &limit) || limit.Max != 3 || limit.RetryAfter <= 0 || waited != time.Minute {
			t.Errorf("the fourth of three gave %v after %v, want a *LimitError after a minute", err, waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := two.Start(ctx, sandbox.Command{Shell: "sleep 1s"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a start whose context ended in the queue gave %v", err)
		}
		time.Sleep(10 * time.Minute)
		for _, ex := range one.Execs() {
			if rec := wait(t, ex); rec.Command.Shell == "sleep 100s" && rec.Status != sandbox.Completed {
				t.Errorf("the time in the queue counted as running: %s after %v", rec.Status, rec.Duration)
			}
		}
	})
}

func TestManagerBoundsRecords(t *testing.T) {
	opts := &sandbox.ManagerOptions{Records: 3, RecordsBytes: 10000}
	managed(t, sleepy(nil), opts, func(t *testing.T, m *sandbox.Manager) {
		one, two := create(t, m, "1", nil), create(t, m, "2", nil)
		for range 5 {
			run(t, one, "print 1")
		}
		if got := len(one.Execs()); got != 3 {
			t.Errorf("%d records by count, want 3", got)
		}
		first := run(t, two, "print 6000")
		last := run(t, two, "print 6000")
		if got := len(one.Execs()); got != 0 {
			t.Errorf("%d older records of the other sandbox are kept, want none", got)
		}
		if _, err := two.Exec(first.ID); !errors.Is(err, sandbox.ErrNotFound) {
			t.Errorf("the record that was too much gave %v, want ErrNotFound", err)
		}
		if _, err := two.Exec(last.ID); err != nil {
			t.Errorf("the newest record: %v", err)
		}
	})
}

func TestManagerCloseReportsEveryFailure(t *testing.T) {
	broken := errors.New("broken")
	var fail atomic.Bool
	fail.Store(true)
	b := sleepy(&fake.Options{Destroy: func(context.Context, string) error {
		if fail.Load() {
			return broken
		}
		return nil
	}})
	synctest.Test(t, func(t *testing.T) {
		m := sandbox.NewManager(b, nil)
		one, two := create(t, m, "1", nil), create(t, m, "2", nil)
		ex, err := one.Start(t.Context(), sandbox.Command{Shell: "sleep 1h"})
		if err != nil {
			t.Fatal(err)
		}
		err = m.Close(context.Background())
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), one.ID()) || !strings.Contains(err.Error(), two.ID()) {
			t.Errorf("Close gave %v, want both sandboxes' errors", err)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("Close gave %q, want one line", err)
		}
		if rec := wait(t, ex); rec.Status != sandbox.Cancelled {
			t.Errorf("what ran is %s, want cancelled", rec.Status)
		}
		if _, err := m.GetOrCreate(t.Context(), key("3"), nil); !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("GetOrCreate after Close gave %v, want ErrClosed", err)
		}
		fail.Store(false)
		if err := m.Close(context.Background()); err != nil {
			t.Errorf("the second Close: %v", err)
		}
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestManagerObserves(t *testing.T) {
	var seen []string
	opts := &sandbox.ManagerOptions{Observer: faketest.Records(func(k sandbox.Key, e *sandbox.Execution) {
		seen = append(seen, fmt.Sprintf("%s %s %s", k.Name, e.Command.Shell, e.Status))
	})}
	managed(t, sleepy(nil), opts, func(t *testing.T, m *sandbox.Manager) {
		run(t, create(t, m, "1", nil), "sleep 1s")
		synctest.Wait()
		if diff := cmp.Diff([]string{"1 sleep 1s running", "1 sleep 1s completed"}, seen); diff != "" {
			t.Errorf("observed (-want +got):\n%s", diff)
		}
	})
}

// keeping is a backend whose sandboxes outlive the process that made them.
type keeping struct {
	*fake.Backend
	mu     sync.Mutex // guards opened
	opened []backend.Recovered
	err    error
	during func() // called by Recover, unless it is nil
}

func (k *keeping) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	instance, err := k.Backend.Create(ctx, cfg)
	if err == nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.opened = append(k.opened, backend.Recovered{Config: cfg, CreatedAt: time.Now(), Instance: instance})
	}
	return instance, err
}

func (k *keeping) Recover(context.Context) ([]backend.Recovered, error) {
	if k.during != nil {
		k.during()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.opened, k.err
}

// A Manager that is closed recovers nothing, and keeps nothing that it was recovering.
func TestAClosedManagerRecoversNothing(t *testing.T) {
	for _, when := range []string{"before", "during"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &keeping{Backend: sleepy(nil)}
				crashed := sandbox.NewManager(b, &sandbox.ManagerOptions{IdleTime: -1})
				room := create(t, crashed, "room", nil)
				m := sandbox.NewManager(b, nil)
				closing := func() {
					if err := m.Close(t.Context()); err != nil {
						t.Error(err)
					}
				}
				if when == "during" {
					b.during = closing
				} else {
					b.during = func() { t.Error("the backend was asked") }
					closing()
				}
				if err := m.Recover(t.Context()); !errors.Is(err, sandbox.ErrClosed) {
					t.Errorf("got %v, want %v", err, sandbox.ErrClosed)
				}
				rec, err := room.Run(t.Context(), sandbox.Command{Shell: "sleep 1s"})
				if alive := err == nil && rec.Status == sandbox.Completed; alive != (when == "before") {
					t.Errorf("the sandbox runs commands: %v (%v)", alive, err)
				}
				if err := errors.Join(crashed.Close(context.Background()), b.Close(context.Background())); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestManagerRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &keeping{Backend: sleepy(nil)}
		crashed := sandbox.NewManager(b, &sandbox.ManagerOptions{IdleTime: -1})
		opts := &sandbox.CreateOptions{Config: sandbox.Config{Lifetime: time.Hour, Labels: map[string]string{"size": "small"}}}
		room := create(t, crashed, "room", opts)
		plain := create(t, crashed, "", nil)
		time.Sleep(30 * time.Minute)

		b.err = errors.New("one is broken")
		m := sandbox.NewManager(b, nil)
		if err := m.Recover(t.Context()); !errors.Is(err, b.err) {
			t.Errorf("Recover gave %v, want the backend's error", err)
		}
		got, err := m.Get(key("room"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(room.Info(), got.Info()); diff != "" {
			t.Errorf("what was recovered (-want +got):\n%s", diff)
		}
		if _, err := m.Get(key(plain.ID())); err != nil {
			t.Errorf("the sandbox without a name: %v", err)
		}
		if rec := run(t, got, "sleep 1s"); rec.Status != sandbox.Completed {
			t.Errorf("a command in it is %s", rec.Status)
		}
		time.Sleep(time.Hour)
		if left := maps.Collect(m.All()); len(left) != 0 {
			t.Errorf("%v are left after their time", left)
		}
		if err := errors.Join(m.Close(context.Background()), crashed.Close(context.Background()), b.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
}

// A decorator that hides what the backend promises is refused with a word, and nothing
// is left of the try.
func TestAHiddenAbilityIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fake.New(nil)
		for name, info := range map[string]func(*backend.Info){
			"backend.Filer":  func(i *backend.Info) { i.Ports = false },
			"backend.Dialer": func(i *backend.Info) { i.Files = false },
		} {
			d := &hiding{b, b.Info()}
			info(&d.info)
			_, err := sandbox.New(t.Context(), d, nil)
			if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), name) {
				t.Errorf("New gave %v, want ErrUnsupported that names %s", err, name)
			}
			m := sandbox.NewManager(d, nil)
			if _, err := m.GetOrCreate(t.Context(), key("n"), nil); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("GetOrCreate gave %v, want ErrUnsupported", err)
			}
			if err := m.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
		if left := b.Sandboxes(); len(left) > 0 {
			t.Errorf("%v are left", left)
		}

		d := &hiding{b, backend.Info{Name: "hiding", Terminal: true, Recover: true}}
		m := sandbox.NewManager(d, nil)
		if err := m.Recover(t.Context()); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "backend.Recoverer") {
			t.Errorf("Recover gave %v, want ErrUnsupported that names backend.Recoverer", err)
		}
		if err := errors.Join(m.Close(context.Background()), b.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
}

// hiding is a backend that is decorated by embedding, and promises what it likes.
type hiding struct {
	backend.Backend
	info backend.Info
}

func (h *hiding) Info() backend.Info { return h.info }

func (h *hiding) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	i, err := h.Backend.Create(ctx, cfg)
	return struct{ backend.Instance }{i}, err
}

func TestManagerTriesAFailedRemovalAgain(t *testing.T) {
	var tries atomic.Int32
	b := fake.New(&fake.Options{Destroy: func(context.Context, string) error {
		if tries.Add(1) < 3 {
			return errors.New("the engine is away")
		}
		return nil
	}})
	managed(t, b, &sandbox.ManagerOptions{IdleTime: time.Minute, MaxSandboxes: 1}, func(t *testing.T, m *sandbox.Manager) {
		first := create(t, m, "n", nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := first.Info().Status; got != sandbox.SandboxClosing {
			t.Errorf("a sandbox that could not be removed is %q", got)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if left := b.Sandboxes(); len(left) > 0 || tries.Load() != 3 {
			t.Errorf("after %d tries there is still %v", tries.Load(), left)
		}
		create(t, m, "n", nil)
	})
}

// A start that waits for a slot waits no longer than its sandbox is there.
func TestAWaitingStartEndsWithItsSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fake.New(nil)
		b.Handle("cmd", func(p *fake.Process) int {
			p.Sleep(time.Hour)
			return 0
		})
		m := sandbox.NewManager(b, &sandbox.ManagerOptions{MaxRunning: 1, MaxRunningPerOwner: -1, MaxWait: time.Minute})
		defer m.Close(context.Background())
		busy, err := m.GetOrCreate(t.Context(), sandbox.Key{Name: "busy"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := busy.Start(t.Context(), sandbox.Command{Shell: "cmd"}); err != nil {
			t.Fatal(err)
		}
		waiting, err := m.GetOrCreate(t.Context(), sandbox.Key{Name: "waiting"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		ended := make(chan error, 1)
		go func() {
			_, err := waiting.Start(t.Context(), sandbox.Command{Shell: "cmd"})
			ended <- err
		}()
		synctest.Wait()
		if err := waiting.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("got %v, want %v", err, sandbox.ErrClosed)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the start ended after %v, want at once", took)
		}
	})
}

// A sandbox that cannot be removed is tried again at one pace, however often it is given
// up.
func TestARemovalIsTriedAgainOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		var fail atomic.Bool
		fail.Store(true)
		b := sleepy(&fake.Options{Destroy: func(context.Context, string) error {
			if fail.Load() {
				tries.Add(1)
				return errors.New("broken")
			}
			return nil
		}})
		m := sandbox.NewManager(b, &sandbox.ManagerOptions{IdleTime: time.Minute})
		create(t, m, "n", nil)
		time.Sleep(time.Minute + time.Second) // it expires
		if _, err := m.GetOrCreate(t.Context(), key("n"), func(context.Context) (*sandbox.CreateOptions, error) {
			return &sandbox.CreateOptions{IdleTime: -1}, nil
		}); err != nil {
			t.Fatal(err)
		}
		tries.Store(0)
		time.Sleep(5 * time.Minute)
		if n := tries.Load(); n < 8 || n > 11 {
			t.Errorf("the removal was tried %d times in 5 minutes, want once in 30 s", n)
		}
		fail.Store(false)
		if err := errors.Join(m.Close(context.Background()), b.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
}
