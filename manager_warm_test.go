package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/fake"
)

// slowly is a backend that takes a second to make a sandbox and another to remove one, and
// fails the test when there are ever more than max.
func slowly(t *testing.T, max int) *fake.Backend {
	var b *fake.Backend
	wait := func(ctx context.Context) error {
		select {
		case <-time.After(time.Second):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b = fake.New(&fake.Options{
		Create: func(ctx context.Context, _ *backend.Config) error {
			if n := len(b.Sandboxes()); n >= max {
				t.Errorf("one more is made when there are %d", n)
			}
			return wait(ctx)
		},
		Destroy: func(ctx context.Context, _ string) error { return wait(ctx) },
	})
	return b
}

// settle lets what happens in the background happen.
func settle() {
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

var python, other = sandbox.Config{Image: "python", Env: map[string]string{"A": "b"}}, sandbox.Config{Image: "other"}

func made(t *testing.T, m *sandbox.Manager, name string, cfg sandbox.Config) (sb sandbox.Sandbox, took time.Duration) {
	t.Helper()
	began := time.Now()
	sb = create(t, m, name, &sandbox.CreateOptions{Config: cfg})
	if _, err := sb.Run(t.Context(), sandbox.Command{Shell: "true"}); err != nil {
		t.Fatal(err)
	}
	return sb, time.Since(began)
}

func TestWarmSandboxes(t *testing.T) {
	b := slowly(t, 4)
	managed(t, b, &sandbox.ManagerOptions{
		MaxSandboxes: 4, MaxSandboxesPerOwner: -1, IdleTime: -1, Lifetime: time.Hour, Warm: []sandbox.Warm{{Config: python, Count: 2}},
	}, func(t *testing.T, m *sandbox.Manager) {
		settle()
		ready := b.Sandboxes()
		if len(ready) != 2 {
			t.Fatalf("ready are %v", ready)
		}
		for range m.All() {
			t.Error("a warm sandbox is listed")
		}
		labelled := python
		labelled.Labels = map[string]string{"l": "v"}
		one, took := made(t, m, "", labelled)
		if !slices.Contains(ready, one.ID()) || took != 0 {
			t.Errorf("%s took %v, and was not one of %v", one.ID(), took, ready)
		}
		if got, err := m.Get(key(one.ID())); err != nil || got != one {
			t.Errorf("under its id there is %v, %v", got, err)
		}
		if labels := one.Info().Labels; len(labels) != 1 || labels["l"] != "v" {
			t.Errorf("its labels are %v", labels)
		}
		settle()
		if n := len(b.Sandboxes()); n != 3 {
			t.Errorf("%d sandboxes after one was taken, want 3", n)
		}
		// What is made otherwise takes its time, and a warm one gives way when all
		// that there may be are there.
		if _, took := made(t, m, "x", other); took != time.Second {
			t.Errorf("another took %v", took)
		}
		settle()
		if _, took := made(t, m, "y", other); took != 2*time.Second {
			t.Errorf("one that a warm one gives way to took %v", took)
		}
		if _, took := made(t, m, "z", python); took != 0 {
			t.Errorf("the last warm one took %v", took)
		}
		var limit *sandbox.LimitError
		if _, err := m.Create(t.Context(), key("more"), nil); !errors.As(err, &limit) {
			t.Errorf("one more gave %v", err)
		}
		if err := m.Remove(t.Context(), key("y")); err != nil {
			t.Error(err)
		}
		settle()
		if _, took := made(t, m, "again", python); took != 0 {
			t.Errorf("after there was room again, one took %v", took)
		}
	})
}

// A warm sandbox is handed out only while it lives, and with most of its lifetime before
// it; and as long as one cannot be made, it is tried again.
func TestWarmSandboxesAreFit(t *testing.T) {
	b := slowly(t, 100)
	failing := &refusing{Backend: b}
	synctest.Test(t, func(t *testing.T) {
		m := sandbox.NewManager(failing, &sandbox.ManagerOptions{
			IdleTime: -1, Lifetime: time.Hour, Warm: []sandbox.Warm{{Config: python, Count: 1}},
		})
		settle()
		first := b.Sandboxes()[0]
		b.Lose(first)
		if sb, took := made(t, m, "a", python); sb.ID() == first || took != time.Second {
			t.Errorf("%s took %v after %s had died", sb.ID(), took, first)
		}
		settle()
		before := b.Sandboxes()
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		sb, took := made(t, m, "b", python)
		if slices.Contains(before, sb.ID()) || took != 0 {
			t.Errorf("%s took %v, and there were %v 20 minutes ago", sb.ID(), took, before)
		}
		if left := time.Until(sb.Info().ExpiresAt); left < 54*time.Minute {
			t.Errorf("it has %v to live", left)
		}
		settle()
		failing.refused.Store(true)
		made(t, m, "c", python)
		time.Sleep(10 * time.Minute)
		failing.refused.Store(false)
		time.Sleep(2 * time.Minute)
		if _, took := made(t, m, "d", python); took != 0 {
			t.Errorf("after the backend makes them again, one took %v", took)
		}
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if left := b.Sandboxes(); len(left) > 0 {
			t.Errorf("Close left %v", left)
		}
		b.Close(context.Background())
	})
}

// refusing is a backend that makes no sandboxes for a while.
type refusing struct {
	*fake.Backend
	refused atomic.Bool
}

func (r *refusing) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	if r.refused.Load() {
		return nil, errors.New("not now")
	}
	return r.Backend.Create(ctx, cfg)
}

// Recover removes what an earlier process has made ahead of need, used or not.
func TestWarmSandboxesAreNotRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &keeping{Backend: fake.New(nil)}
		crashed := sandbox.NewManager(b, &sandbox.ManagerOptions{IdleTime: -1, Warm: []sandbox.Warm{{Config: python, Count: 2}}})
		settle()
		made(t, crashed, "used", python)
		kept, _ := made(t, crashed, "kept", other)
		settle()
		m := sandbox.NewManager(b, nil)
		if err := m.Recover(t.Context()); err != nil {
			t.Error(err)
		}
		settle()
		if left := b.Sandboxes(); len(left) != 1 || left[0] != kept.ID() {
			t.Errorf("left are %v, want %s", left, kept.ID())
		}
		if err := errors.Join(m.Close(context.Background()), crashed.Close(context.Background()), b.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
}

// A manager has a few sandboxes ready, and a creation takes one.
func ExampleWarm() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	python := sandbox.Config{Image: "python:3.13-slim"}
	m := sandbox.NewManager(b, &sandbox.ManagerOptions{Warm: []sandbox.Warm{{Config: python, Count: 2}}})
	defer m.Close(ctx)

	sb, err := m.Create(ctx, sandbox.Key{Owner: "ann", Name: "scratch"}, &sandbox.CreateOptions{Config: python})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sb.Info().Status)
	// Output: running
}
