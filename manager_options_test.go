package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
)

func TestManagerListsSandboxes(t *testing.T) {
	managed(t, fake.New(nil), nil, func(t *testing.T, m *sandbox.Manager) {
		keys := []sandbox.Key{
			{Owner: "o", Namespace: "b", Name: "n"},
			{Owner: "p", Namespace: "a", Name: "n"},
			{Owner: "o", Namespace: "a", Name: "n"},
			{Name: "nobody's"},
		}
		byID := make(map[string]sandbox.Key)
		for _, k := range keys {
			sb, err := m.Create(t.Context(), k, nil)
			if err != nil {
				t.Fatal(err)
			}
			byID[sb.ID()] = k
			time.Sleep(time.Second)
		}
		for name, tt := range map[string]struct {
			list iter.Seq2[sandbox.Key, sandbox.Sandbox]
			want []sandbox.Key
		}{
			"all":        {m.All(), keys},
			"one's":      {m.OwnedBy("o"), []sandbox.Key{keys[0], keys[2]}},
			"nobody's":   {m.OwnedBy(""), keys[3:]},
			"stranger's": {m.OwnedBy("x"), nil},
		} {
			var got []sandbox.Key
			for k, sb := range tt.list {
				if byID[sb.ID()] != k {
					t.Errorf("%s has %s for %v", name, sb.ID(), k)
				}
				got = append(got, k)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		for k := range m.All() { // which holds no lock
			if err := m.Remove(t.Context(), k); err != nil {
				t.Error(err)
			}
			break
		}
		left := 0
		for range m.All() {
			left++
		}
		if left != len(keys)-1 {
			t.Errorf("%d sandboxes are left, want %d", left, len(keys)-1)
		}
	})
}

// A sandbox's own options win over the manager's, also when it is recovered.
func TestASandboxesOwnOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &keeping{Backend: sleepy(nil)}
		opts := &sandbox.ManagerOptions{IdleTime: time.Minute, MaxRunningPerSandbox: 1, Records: 1}
		first := sandbox.NewManager(b, opts)
		create(t, first, "plain", nil)
		create(t, first, "more", &sandbox.CreateOptions{IdleTime: time.Hour, MaxRunning: 2, Records: 3})
		time.Sleep(time.Second)
		create(t, first, "none", &sandbox.CreateOptions{IdleTime: -1, MaxRunning: -1, Records: -1})
		second := sandbox.NewManager(b, opts)
		if err := second.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, m := range map[string]*sandbox.Manager{"created": first, "recovered": second} {
			var got []string
			for _, key := range []sandbox.Key{key("plain"), key("more"), key("none")} {
				sb, err := m.Get(key)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%s runs %d and keeps %d", key.Name, runs(t, sb), len(sb.Execs())))
			}
			want := []string{"plain runs 1 and keeps 1", "more runs 2 and keeps 2", "none runs 5 and keeps 0"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			if labels := label(m, key("more")); len(labels) > 0 {
				t.Errorf("%s shows the labels %v", name, labels)
			}
		}
		for _, tt := range []struct {
			after time.Duration
			want  []string
		}{
			{2 * time.Minute, []string{"more", "none"}},
			{2 * time.Hour, []string{"none"}},
		} {
			time.Sleep(tt.after)
			for name, m := range map[string]*sandbox.Manager{"created": first, "recovered": second} {
				var got []string
				for k := range m.All() {
					got = append(got, k.Name)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s, after %v (-want +got):\n%s", name, tt.after, diff)
				}
			}
		}
		if err := errors.Join(first.Close(context.Background()), second.Close(context.Background()), b.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
}

// runs returns how many of five executions at once a sandbox runs, when they are over.
func runs(t *testing.T, sb sandbox.Sandbox) int {
	t.Helper()
	var execs []sandbox.Exec
	for range 5 {
		ex, err := sb.Start(t.Context(), sandbox.Command{Shell: "sleep 1s"})
		if err == nil {
			execs = append(execs, ex)
		} else if !errors.Is(err, sandbox.ErrLimit) {
			t.Error(err)
		}
	}
	for _, ex := range execs {
		wait(t, ex)
	}
	synctest.Wait()
	return len(execs)
}

func label(m *sandbox.Manager, key sandbox.Key) map[string]string {
	sb, err := m.Get(key)
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return sb.Info().Labels
}
