package docker_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/docker"
)

const (
	forkBomb   = `bomb() { bomb | bomb & }; bomb; exec sleep 60`
	memoryBomb = `tail /dev/zero`
)

// cancelBomb ends a bomb, which must not take longer than any kill.
func cancelBomb(t *testing.T, e sandbox.Exec) {
	t.Helper()
	begin := time.Now()
	if err := e.Cancel(t.Context()); err != nil {
		t.Errorf("cancel: %v", err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("the kill took %v", took)
	}
}

// A fork bomb fills the limit of processes. Commands cannot be started then, and
// say so; the kill ends it within seconds; then they can.
func TestForkBomb(t *testing.T) {
	ctx := testContext(t)
	sb := newSandbox(t, newBackend(t, docker.Options{}), &sandbox.Config{Limits: sandbox.Limits{PIDs: 100}})
	e, err := sb.Start(ctx, sandbox.Command{Shell: forkBomb})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	for range 3 {
		rec := run(t, sb, "/bin/true; /bin/true")
		switch {
		case rec.Status == sandbox.Completed: // it found room, or its shell said that there was none
		case rec.Status == sandbox.Failed && errors.Is(rec.Err, backend.NoResources):
		default:
			t.Errorf("a command beside it: %s", describe(rec))
		}
	}
	cancelBomb(t, e)
	if rec := e.Execution(); rec.Status != sandbox.Cancelled {
		t.Errorf("the bomb: %s", describe(rec))
	}
	if got := output(t, sb, "echo works"); got != "works\n" {
		t.Errorf("afterwards: %q", got)
	}
}

// A command that the kernel kills for memory is told from every other kill, and
// so is one that survives its child's.
func TestOutOfMemory(t *testing.T) {
	b := newBackend(t, docker.Options{})
	if !b.Info().OOM {
		t.Skip("the runtime does not tell")
	}
	sb := newSandbox(t, b, &sandbox.Config{Limits: sandbox.Limits{Memory: 64 << 20}})
	for _, test := range []struct {
		name   string
		text   string
		code   int
		signal sandbox.Signal
		oom    bool
		kills  bool
	}{
		{"command", "exec " + memoryBomb, 137, backend.SIGKILL, true, true},
		{"child", memoryBomb + "; echo $?; exit 3", 3, 0, false, true},
		{"kill", "kill -9 $$", 137, backend.SIGKILL, false, false},
		{"exit", "exit 137", 137, 0, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			rec := run(t, sb, test.text)
			if rec.Status != sandbox.Completed || *rec.ExitCode != test.code || rec.Signal != test.signal || rec.OOMKilled != test.oom {
				t.Errorf("%s: %s", test.text, describe(rec))
			}
			if rec.Usage == nil || (rec.Usage.OOMKills > 0) != test.kills {
				t.Errorf("%s: usage %+v", test.text, rec.Usage)
			}
		})
	}
	select {
	case <-sb.Gone():
		t.Error("the sandbox is gone")
	default:
	}
}

// Both bombs in one command leave the agent able to kill it, and the next command
// able to run, also when every process of them has a session of its own.
func TestBothBombs(t *testing.T) {
	if os.Getenv("SANDBOX_TEST_FULL") == "" {
		t.Skip("it takes half a minute, and how long a process waits for memory is the kernel's: set SANDBOX_TEST_FULL=1")
	}
	b := newBackend(t, docker.Options{})
	for name, bombs := range map[string]string{
		"group":    `bomb() { ` + memoryBomb + ` & bomb | bomb & }; bomb; exec sleep 60`,
		"sessions": `export B='setsid sh -c "$B" & setsid sh -c "$B" & exec ` + memoryBomb + `'; setsid sh -c "$B" & exec sleep 60`,
	} {
		t.Run(name, func(t *testing.T) {
			sb := newSandbox(t, b, &sandbox.Config{Limits: sandbox.Limits{PIDs: 60, Memory: 128 << 20}})
			ctx := testContext(t)
			e, err := sb.Start(ctx, sandbox.Command{Shell: bombs})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			beside, err := sb.Run(ctx, sandbox.Command{Shell: "/bin/true", Timeout: 2 * time.Second})
			switch {
			case err != nil:
				t.Error(err)
			case errors.Is(beside.Err, sandbox.ErrLost) && beside.Status == sandbox.TimedOut && beside.Duration >= 12*time.Second:
				// The agent waited for memory for the 10 s that a kill may take, and nobody made
				// up that the command was gone.
			case beside.Err != nil && !errors.Is(beside.Err, backend.NoResources):
				t.Errorf("a command beside them: %s", describe(beside))
			}
			cancelBomb(t, e)
			if got := output(t, sb, "echo works; ps | grep -c '[t]ail'; true"); got != "works\n0\n" {
				t.Errorf("afterwards: %q", got)
			}
		})
	}
}
