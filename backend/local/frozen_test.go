//go:build linux && (amd64 || arm64)

package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// killTime is within what a kill ends, whoever is stopped.
const killTime = 10 * time.Second

// within runs f and fails the test when that takes longer than d.
func within(t *testing.T, what string, d time.Duration, f func()) {
	t.Helper()
	begin := time.Now()
	f()
	if took := time.Since(begin); took > d {
		t.Errorf("%s took %v", what, took)
	}
}

// parents returns the processes of the agent's that are parents of processes with args.
func parents(args string) (found []int) {
	for _, agent := range pids("sandbox-agent local", os.Getpid()) {
		for _, pid := range pids("sandbox-agent supervise", agent) {
			if len(pids(args, pid)) > 0 {
				found = append(found, pid)
			}
		}
	}
	return found
}

func signalAll(t *testing.T, pids []int, s syscall.Signal) {
	t.Helper()
	if len(pids) == 0 {
		t.Error("no process to signal")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, s); err != nil {
			t.Error(err)
		}
	}
}

func silent(text string) *backend.Spec {
	return &backend.Spec{Shell: text, Stdout: io.Discard, Stderr: io.Discard}
}

// TestCommandStopsItsSupervisor checks that a command that runs as the service's own
// user, and so may stop its supervisor, ends with its timeout all the same.
func TestCommandStopsItsSupervisor(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("a command's user is the sandbox's own here, and may not signal its supervisor")
	}
	t.Parallel()
	sb, err := sandbox.New(t.Context(), newBackend(t, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	within(t, "a timeout of 1 s", time.Second+killTime, func() {
		rec, err := sb.Run(t.Context(), sandbox.Command{
			Shell: fmt.Sprintf("setsid %s & sleep .3; kill -STOP $PPID; %[1]s", nap(20)), Timeout: time.Second,
		})
		if err != nil || rec.Status != sandbox.TimedOut || errors.As(rec.Err, new(*backend.SurvivorsError)) {
			t.Errorf("got %+v, %v", rec, err)
		}
	})
	if alive(nap(20)) {
		t.Error("it is alive after the timeout")
	}
	rec, err := sb.Run(t.Context(), sandbox.Command{Shell: "echo on"})
	if err != nil || rec.Stdout.String() != "on\n" {
		t.Errorf("the next command: %+v, %v", rec, err)
	}
	within(t, "the close", killTime, func() {
		if err := sb.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestCommandStopsItsSupervisorOrdinaryUser(t *testing.T) {
	t.Parallel()
	asOrdinaryUser(t, "^TestCommandStopsItsSupervisor$")
}

// TestCommandsSignalEachOther checks that a later command of a sandbox can signal what
// an earlier one has left.
func TestCommandsSignalEachOther(t *testing.T) {
	i := newInstance(t, newBackend(t, nil), "sbx_1")
	output(t, i, backend.Spec{Shell: nap(21) + " </dev/null >/dev/null 2>&1 & echo $! >server.pid"})
	if out := output(t, i, backend.Spec{Shell: "kill $(cat server.pid) && echo done"}); out != "done\n" {
		t.Errorf("got %q", out)
	}
	eventually(t, "the server's end", func() bool { return !alive(nap(21)) })
}

func TestCommandsSignalEachOtherOrdinaryUser(t *testing.T) {
	asOrdinaryUser(t, "^TestCommandsSignalEachOther$")
}

// TestSupervisorStopped checks that a supervisor that is stopped holds nobody up: it is
// killed, with all that it has started, and nothing else is.
func TestSupervisorStopped(t *testing.T) {
	t.Parallel()
	i := newInstance(t, newBackend(t, nil), "sbx_1")
	other := start(t, i, backend.Spec{Shell: "exec " + nap(22)})
	p := start(t, i, backend.Spec{
		Shell: "setsid " + nap(23) + " & exec " + nap(23), Stdin: strings.NewReader(strings.Repeat("x", 1<<20)),
	})
	eventually(t, "the commands", func() bool { return len(pids(nap(23), 0)) >= 2 && alive(nap(22)) })
	signalAll(t, parents(nap(23)), syscall.SIGSTOP)
	within(t, "what asks nobody", time.Second, func() {
		p.Signal(t.Context(), backend.SIGUSR1)
		p.DiscardOutput()
	})
	within(t, "the kill", killTime, func() {
		if err := p.Kill(); err != nil {
			t.Errorf("kill: %v", err)
		}
	})
	if alive(nap(23)) {
		t.Error("it is alive after the kill")
	}
	if exit, err := p.Exit(); err == nil {
		t.Errorf("an outcome was made up: %+v", exit)
	}
	<-p.OutputOver()
	if !alive(nap(22)) {
		t.Error("another execution died with it")
	}
	if err := other.Kill(); err != nil {
		t.Error(err)
	}
}

// TestIdleSupervisorsStopped checks that a start that its supervisor does not answer
// ends with its context, and says then what is known: that nothing runs.
func TestIdleSupervisorsStopped(t *testing.T) {
	t.Parallel()
	i := newInstance(t, newBackend(t, nil), "sbx_1")
	p := start(t, i, backend.Spec{Shell: "exec " + nap(27)}) // tells which of all agents is ours
	eventually(t, "the command", func() bool { return len(parents(nap(27))) == 1 })
	agent := parentOf(t, parents(nap(27)))[0]
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	var idle []int
	// A short start, and one that does not fit into the socket.
	for _, text := range []string{nap(24), nap(24) + " #" + strings.Repeat("x", 500_000)} {
		// More are started while there are few.
		for seen := 0; seen < 2 || seen < len(idle); {
			time.Sleep(300 * time.Millisecond)
			seen = len(idle)
			idle = pids("sandbox-agent supervise", agent)
			for _, pid := range idle {
				syscall.Kill(pid, syscall.SIGSTOP)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		within(t, "the start", killTime, func() {
			if _, err := i.Start(ctx, silent(text)); err != context.DeadlineExceeded {
				t.Errorf("start: %v", err)
			}
		})
		cancel()
	}
	for _, pid := range idle {
		syscall.Kill(pid, syscall.SIGCONT)
	}
	if alive(nap(24)) {
		t.Error("a command that was given up runs")
	}
	if out := output(t, i, backend.Spec{Shell: "echo on"}); out != "on\n" {
		t.Errorf("the next command: %q", out)
	}
}

// TestAgentStopped checks that a stopped agent is killed, and what it has started with
// it, when something is wanted of it.
func TestAgentStopped(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		nap         int
		supervisors bool
	}{{"agent", 25, false}, {"agent-and-supervisor", 26, true}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, nil)
			i := newInstance(t, b, "sbx_1")
			p := start(t, i, backend.Spec{Shell: "setsid " + nap(test.nap) + " & exec " + nap(test.nap)})
			eventually(t, "the commands", func() bool { return len(pids(nap(test.nap), 0)) >= 2 })
			supervisor := parents(nap(test.nap))
			agent := parentOf(t, supervisor)
			if test.supervisors {
				signalAll(t, supervisor, syscall.SIGSTOP)
			}
			signalAll(t, agent, syscall.SIGSTOP)
			within(t, "the kill", killTime, func() { p.Kill() })
			if alive(nap(test.nap)) {
				t.Error("it is alive after the kill")
			}
			within(t, "the close", killTime, func() {
				if err := b.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
			for _, pid := range append(agent, supervisor...) {
				// Whoever inherits what the agent leaves may be slow to reap.
				if cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); len(cmdline) > 0 {
					t.Errorf("process %d, %q, is there after the close", pid, cmdline)
				}
			}
		})
	}
}

func TestAgentStoppedOrdinaryUser(t *testing.T) {
	t.Parallel()
	asOrdinaryUser(t, "^TestAgentStopped$")
}

// parentOf returns the parent of the first of some processes.
func parentOf(t *testing.T, of []int) []int {
	t.Helper()
	for _, agent := range pids("sandbox-agent local", os.Getpid()) {
		for _, pid := range pids("sandbox-agent supervise", agent) {
			if len(of) > 0 && pid == of[0] {
				return []int{agent}
			}
		}
	}
	t.Fatal("no agent")
	return nil
}
