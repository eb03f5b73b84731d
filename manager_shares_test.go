package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
)

func owned(owner, name string) sandbox.Key {
	return sandbox.Key{Owner: owner, Namespace: "a", Name: name}
}

// limited checks that err says that this limit is reached.
func limited(t *testing.T, err error, limit sandbox.LimitKind, max int) {
	t.Helper()
	var l *sandbox.LimitError
	if !errors.As(err, &l) || l.Limit != limit || l.Max != max {
		t.Errorf("got %v, want the limit of %d %s", err, max, limit)
	}
}

// One owner who takes all that he gets leaves the others what is theirs: sandboxes,
// turns, places to wait, records, and the keys in them.
func TestOneOwnerLeavesRoomForOthers(t *testing.T) {
	opts := &sandbox.ManagerOptions{MaxSandboxes: 40, MaxRunning: 8, MaxWait: time.Minute, MaxWaiting: 20, Records: 1000, RecordsBytes: 1 << 20}
	managed(t, sleepy(nil), opts, func(t *testing.T, m *sandbox.Manager) {
		quiet, err := m.Create(t.Context(), owned("quiet", "n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		kept := run(t, quiet, "print 1000")
		keyed, err := quiet.Run(t.Context(), sandbox.Command{Shell: "print 1000", Key: "k"})
		if err != nil {
			t.Fatal(err)
		}

		var greedy []sandbox.Sandbox
		for i := range 1000 {
			sb, err := m.Create(t.Context(), owned("greedy", fmt.Sprint(i)), nil)
			if err != nil {
				limited(t, err, "sandboxes of one owner", 10)
				break
			}
			greedy = append(greedy, sb)
		}
		if len(greedy) != 10 {
			t.Errorf("one owner got %d of 40 sandboxes, want 10", len(greedy))
		}
		if _, err := m.GetOrCreate(t.Context(), owned("greedy", "more"), nil); err == nil {
			t.Error("GetOrCreate gave one more")
		}

		for range 200 {
			run(t, greedy[0], "print 100000")
		}
		for _, id := range []string{kept.ID, keyed.ID} {
			if _, err := quiet.Exec(id); err != nil {
				t.Errorf("a record of another owner: %v", err)
			}
		}
		if again, err := quiet.Run(t.Context(), sandbox.Command{Shell: "print 1", Key: "k"}); err != nil || again.ID != keyed.ID {
			t.Errorf("a key of another owner is not known any more (%v)", err)
		}
		if n := len(greedy[0].Execs()); n < 3 || n > 10 {
			t.Errorf("the owner who fills the records keeps %d of them", n)
		}

		var starts sync.WaitGroup
		var mu sync.Mutex
		waited, refused := 0, 0
		for i := range 200 {
			starts.Go(func() {
				_, err := greedy[i%10].Start(t.Context(), sandbox.Command{Shell: "sleep 10m"})
				var l *sandbox.LimitError
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
				case errors.As(err, &l) && l.Limit == sandbox.LimitRunningPerOwner && l.Max == 2:
					waited++
				default:
					limited(t, err, "waiting starts of one owner", 5)
					refused++
				}
			})
		}
		time.Sleep(time.Second)
		began := time.Now()
		if rec := run(t, quiet, "sleep 1s"); rec.Status != sandbox.Completed || time.Since(began) != time.Second {
			t.Errorf("another owner's command was over after %v, want 1 s", time.Since(began))
		}
		starts.Wait()
		if waited != 5 || refused != 193 {
			t.Errorf("of 200 starts %d waited and %d were refused, want 5 and 193", waited, refused)
		}

		// What is given back can be had again.
		for i := range greedy {
			if err := m.Remove(t.Context(), owned("greedy", fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		}
		again, err := m.Create(t.Context(), owned("greedy", "again"), nil)
		if err != nil {
			t.Fatal(err)
		}
		run(t, again, "sleep 1s")
	})
}

func TestShares(t *testing.T) {
	for _, tt := range []struct {
		name  string
		owner string
		opts  sandbox.ManagerOptions
		want  int
	}{
		{"a-quarter", "o", sandbox.ManagerOptions{MaxSandboxes: 9}, 3},
		{"given", "o", sandbox.ManagerOptions{MaxSandboxes: 9, MaxSandboxesPerOwner: 5}, 5},
		{"off", "o", sandbox.ManagerOptions{MaxSandboxes: 9, MaxSandboxesPerOwner: -1}, 9},
		{"no-owner", "", sandbox.ManagerOptions{MaxSandboxes: 9}, 9},
		{"of-no-limit", "o", sandbox.ManagerOptions{MaxSandboxes: -1}, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			managed(t, sleepy(nil), &tt.opts, func(t *testing.T, m *sandbox.Manager) {
				got := 0
				for i := range 20 {
					if _, err := m.Create(t.Context(), owned(tt.owner, fmt.Sprint(i)), nil); err == nil {
						got++
					}
				}
				if got != tt.want {
					t.Errorf("one owner got %d sandboxes, want %d", got, tt.want)
				}
			})
		})
	}
	t.Run("a-creation-that-failed-is-given-back", func(t *testing.T) {
		managed(t, sleepy(nil), &sandbox.ManagerOptions{MaxSandboxes: 4}, func(t *testing.T, m *sandbox.Manager) {
			for range 3 {
				_, err := m.GetOrCreate(t.Context(), owned("o", "n"), func(context.Context) (*sandbox.CreateOptions, error) {
					return nil, errors.New("no")
				})
				if err == nil || errors.Is(err, sandbox.ErrLimit) {
					t.Errorf("GetOrCreate gave %v", err)
				}
			}
			if _, err := m.Create(t.Context(), owned("o", "n"), nil); err != nil {
				t.Error(err)
			}
		})
	})
}
