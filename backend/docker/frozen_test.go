//go:build linux

package docker_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/docker"
)

// agentPID returns the process that serves a container's executions, as this host numbers
// it. It skips the test where that process is not this host's, or not ours to stop.
func agentPID(tb testing.TB, api *client.Client, container string) int {
	tb.Helper()
	namespace := func(pid int) string {
		name, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		return name
	}
	is := func(pid int, mode string) bool {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return bytes.Contains(cmdline, []byte("/agent\x00"+mode+"\x00"))
	}
	first := inspect(tb, api, container).State.Pid
	if !is(first, "init") || namespace(first) == "" || syscall.Kill(first, 0) != nil {
		tb.Skip("the container's processes are not this host's, or somebody else's")
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && namespace(pid) == namespace(first) && is(pid, "serve") {
			return pid
		}
	}
	tb.Fatalf("no agent serves in %s", container)
	return 0
}

func signalTo(tb testing.TB, pid int, s syscall.Signal) {
	tb.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		tb.Errorf("%v: %v", s, err)
	}
}

// endless is an input that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, strings.Repeat("x", len(p))), nil }

// An agent that is stopped holds no record up, whenever that happens, and with its input
// full: the record says in time that the outcome is unknown. When it goes on, or is
// killed, nothing of the command is left.
func TestAgentStopped(t *testing.T) {
	if os.Getenv("SANDBOX_TEST_FULL") != "1" {
		t.Skip("it waits for kills that are not answered: set SANDBOX_TEST_FULL=1")
	}
	api := engine(t)
	b := newBackend(t, docker.Options{})
	for n, when := range []string{"before", "during", "after", "killed"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			sb := newSandbox(t, b, nil)
			output(t, sb, "true")
			agent := agentPID(t, api, containerOf(sb))
			nap := fmt.Sprintf("sleep %d", 77_001+n)
			cmd := sandbox.Command{
				Argv:  []string{"sh", "-c", "setsid " + nap + " & echo begun; sleep 1; exec " + nap, strings.Repeat("x", 100_000)},
				Stdin: endless{}, Timeout: 2 * time.Second,
			}
			stop := func() { signalTo(t, agent, syscall.SIGSTOP) }
			var e sandbox.Exec
			var err error
			switch when {
			case "before":
				stop()
				e, err = sb.Start(ctx, cmd)
			case "during":
				timer := time.AfterFunc(3*time.Millisecond, stop)
				defer timer.Stop()
				e, err = sb.Start(ctx, cmd)
			default:
				var stream sandbox.Stream
				if e, stream, err = sb.Follow(ctx, cmd); err == nil {
					if _, err := stream.Next(ctx); err != nil {
						t.Error(err)
					}
					stream.Close()
				}
				stop()
			}
			if err != nil {
				t.Fatal(err)
			}
			rec, err := e.Wait(ctx)
			if err != nil || rec.Status != sandbox.TimedOut || !errors.Is(rec.Err, sandbox.ErrLost) {
				t.Errorf("%v, %s", err, describe(rec))
			}
			if late := rec.Duration - cmd.Timeout; late > 10*time.Second+slack {
				t.Errorf("the record came %v after the timeout", late)
			}
			if when == "killed" {
				signalTo(t, agent, syscall.SIGKILL)
			} else {
				signalTo(t, agent, syscall.SIGCONT)
			}
			eventually(t, "nothing is left", func() bool { return !running(t, api, containerOf(sb), nap) })
			if got := output(t, sb, "echo works"); got != "works\n" {
				t.Errorf("the next command: %q", got)
			}
		})
	}
}

// slack is what a busy machine may take beyond what is promised.
const slack = 3 * time.Second

// An agent that was stopped for a moment, while it was asked to start a command and then
// to kill it, does both, and the record says that nothing is left.
func TestAgentStoppedForAMoment(t *testing.T) {
	api, ctx := engine(t), testContext(t)
	sb := newSandbox(t, newBackend(t, docker.Options{}), nil)
	output(t, sb, "true")
	agent := agentPID(t, api, containerOf(sb))
	signalTo(t, agent, syscall.SIGSTOP)
	time.AfterFunc(time.Second, func() { signalTo(t, agent, syscall.SIGCONT) })
	rec, err := sb.Run(ctx, sandbox.Command{Shell: "sleep 77777", Stdin: endless{}, Timeout: 300 * time.Millisecond})
	if err != nil || rec.Status != sandbox.TimedOut || rec.Err != nil {
		t.Errorf("%v, %s", err, describe(rec))
	}
	if running(t, api, containerOf(sb), "sleep 77777") {
		t.Error("it runs after the kill")
	}
	output(t, sb, "true")
}

// A record whose outcome is unknown, since the agent was killed, says that it was.
func TestAgentKilled(t *testing.T) {
	api := engine(t)
	sb := newSandbox(t, newBackend(t, docker.Options{}), nil)
	output(t, sb, "true")
	agent := agentPID(t, api, containerOf(sb))
	time.AfterFunc(300*time.Millisecond, func() { signalTo(t, agent, syscall.SIGKILL) })
	rec := run(t, sb, "sleep 77778")
	if rec.Status != sandbox.Failed || !errors.Is(rec.Err, sandbox.ErrLost) || !strings.Contains(rec.Err.Error(), "was killed") {
		t.Errorf("%s", describe(rec))
	}
	output(t, sb, "true")
}
