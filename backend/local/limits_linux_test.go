package local_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/local"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// limitedBackend returns a backend whose sandboxes are limited. Where that cannot be had, it
// holds the backend to refusing limits, and ends the test.
func limitedBackend(t *testing.T, opts local.Options) backend.Backend {
	t.Helper()
	plain := opts
	plain.Limits = backend.Limits{}
	if b := newBackend(t, &plain); !b.Info().OOM {
		if _, err := local.New(&opts); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("limits that cannot be held: %v", err)
		}
		if !strings.Contains(strings.Join(b.Info().Caveats, " "), "Nothing limits") {
			t.Errorf("Info does not say that nothing is limited: %q", b.Info().Caveats)
		}
		t.Skip("the service may not make control groups")
	}
	return newBackend(t, &opts)
}

// runners are what a limit holds with.
var runners = map[string]bool{"agent": false, "process-groups": true}

// A sandbox that has used up its processes can be killed and hurts nobody else.
func TestForkBomb(t *testing.T) {
	for name, groups := range runners {
		t.Run(name, func(t *testing.T) {
			b := limitedBackend(t, local.Options{ProcessGroups: groups, Limits: backend.Limits{PIDs: 30}})
			bombed, other := newInstance(t, b, "sbx_bombed"), newInstance(t, b, "sbx_other")
			if most := limitOutside(t, bombed); most != "30" {
				t.Fatalf("it may have %q processes", most) // no bomb without a limit
			}
			said := new(programtest.Buffer)
			refused := func() bool { return strings.Contains(strings.ToLower(said.String()), "fork") }
			p := start(t, bombed, backend.Spec{
				Shell:  "i=0; while [ $i -lt 300 ]; do sleep 60 & i=$((i+1)); done; wait",
				Stderr: said,
			})
			for deadline := time.Now().Add(20 * time.Second); !refused() && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond)
			}
			if got := output(t, other, backend.Spec{Shell: "echo on"}); got != "on\n" {
				t.Errorf("another sandbox prints %q", got)
			}
			if err := p.Kill(); err != nil {
				t.Errorf("kill: %v", err)
			}
			<-p.OutputOver()
			if !refused() {
				t.Error("300 processes could be made")
			}
			if groups {
				return // nobody waits until the machine's first process has reaped what was killed
			}
			if got := output(t, bombed, backend.Spec{Shell: "echo on"}); got != "on\n" {
				t.Errorf("the next command prints %q", got)
			}
		})
	}
}

// limitOutside returns how many processes a sandbox may have, as the kernel tells those who
// are not in it.
func limitOutside(t *testing.T, i backend.Instance) string {
	t.Helper()
	for line := range strings.Lines(output(t, i, backend.Spec{Shell: "cat /proc/$$/cgroup"})) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for _, dir := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
			if most, err := os.ReadFile(dir + fields[2] + "/pids.max"); err == nil && (fields[1] == "pids" || fields[1] == "") {
				return strings.TrimSpace(string(most))
			}
		}
	}
	return ""
}

// Memory and processors are limited, and a kill for memory is told.
func TestLimits(t *testing.T) {
	for name, groups := range runners {
		t.Run(name, func(t *testing.T) {
			b := limitedBackend(t, local.Options{ProcessGroups: groups, Limits: backend.Limits{Memory: 64 << 20, CPUs: 0.2}})
			i := newInstance(t, b, "sbx_1")
			exit, err := start(t, i, backend.Spec{Shell: "exec tail /dev/zero"}).Exit()
			if err != nil || !exit.OOMKilled {
				t.Errorf("a command that takes all memory: %+v, %v", exit, err)
			}
			p := start(t, i, backend.Spec{Shell: "while :; do :; done"})
			time.Sleep(2 * time.Second)
			if err := p.Kill(); err != nil {
				t.Errorf("kill: %v", err)
			}
			if exit, err := p.Exit(); err != nil || exit.Usage == nil || exit.Usage.UserTime+exit.Usage.SystemTime > time.Second {
				t.Errorf("of a fifth of a processor it had %+v in 2 s, %v", exit.Usage, err)
			}
		})
	}
}
