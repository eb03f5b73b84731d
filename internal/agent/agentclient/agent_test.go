//go:build linux && (amd64 || arm64)

package agentclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent"
	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

func TestMain(m *testing.M) {
	if agent := os.Getenv(asKiller); agent != "" {
		kill(agent)
		return
	}
	goleak.VerifyTestMain(m)
}

// user is who commands run as: somebody who has nothing, or the tests' own user.
func user() string {
	if os.Geteuid() == 0 {
		return "39998"
	}
	return strconv.Itoa(os.Geteuid())
}

// An agentProcess is an agent as a container has it, and the connection to it.
type agentProcess struct {
	*agentclient.Conn
	cmd *exec.Cmd
}

// stdio is the other end of the agent's stdin and stdout.
type stdio struct {
	io.Reader
	io.WriteCloser
}

// startAgent starts an agent that ends with the test.
func startAgent(t testing.TB) *agentProcess {
	t.Helper()
	return startAgentWith(t, agentclient.Options{})
}

func startAgentWith(t testing.TB, opts agentclient.Options) *agentProcess {
	t.Helper()
	return launch{opts: opts, direct: directly}.start(t)
}

// directly has agents be spoken with directly where that can be.
var directly bool

// A launch says how an agent is started.
type launch struct {
	opts   agentclient.Options
	env    []string
	flags  []agent.ServeFlag
	direct bool      // the agent is spoken with directly where that can be
	uid    uint32    // whose the agent is; 0 is the tests' own user
	said   io.Writer // takes what it says on stdout too, unless nil
}

func (l launch) start(t testing.TB) *agentProcess {
	t.Helper()
	program, _, err := agent.Native()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(programtest.PublicDir(t), "sandbox-agent")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	argv := agent.ServeCommand(path, "", "", l.flags...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append([]string{}, l.env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if l.uid > 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: l.uid, Gid: l.uid}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if l.direct {
		l.opts.PID = isPID(cmd.Process.Pid)
	}
	var from io.Reader = out
	if l.said != nil {
		from = io.TeeReader(out, l.said)
	}
	conn, err := agentclient.Dial(t.Context(), stdio{from, in}, l.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		cmd.Wait()
	})
	return &agentProcess{conn, cmd}
}

// An agent tells its environment where it is asked to, and answers a ping.
func TestEnvironment(t *testing.T) {
	env := []string{"FROM_IMAGE=yes", "PATH=/image"}
	told := launch{env: env, flags: []agent.ServeFlag{agent.TellEnvironment}}.start(t)
	if got := told.Environ(); !slices.Equal(got, env) {
		t.Errorf("its environment is %q", got)
	}
	a := launch{env: env}.start(t)
	if got := a.Environ(); got != nil {
		t.Errorf("without being asked it tells %q", got)
	}
	if err := a.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
	a.Close()
	if err := a.Ping(t.Context()); err == nil {
		t.Error("a connection that is closed answers a ping")
	}
}

// spec is a command with what every command needs.
func spec(s backend.Spec) *backend.Spec {
	s.Dir, s.User, s.Env = "/", user(), []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	if s.Stdout == nil {
		s.Stdout = io.Discard
	}
	if s.Stderr == nil {
		s.Stderr = io.Discard
	}
	return &s
}

func (a *agentProcess) start(t *testing.T, s backend.Spec) backend.Process {
	t.Helper()
	p, err := a.Start(t.Context(), spec(s))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// within fails the test when c is not closed soon.
func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: not within 20 s", what)
	}
}

// alive reports whether a process is there that has args in its command line.
func alive(args string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		if b, _ := os.ReadFile(path); strings.Contains(strings.ReplaceAll(string(b), "\x00", " "), args) {
			return true
		}
	}
	return false
}

// dies fails the test when a process with args does not end soon.
func dies(t *testing.T, args string) {
	t.Helper()
	for begin := time.Now(); alive(args); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 5*time.Second {
			t.Fatalf("%q is alive", args)
		}
	}
}

// appears waits until a process with args is there.
func appears(t *testing.T, args string) {
	t.Helper()
	for begin := time.Now(); !alive(args); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("%q is not there", args)
		}
	}
}

// nap returns the arguments of a sleep that no other test has.
func nap(n int) string { return fmt.Sprintf("sleep %d.%d", 100_000+n, os.Getpid()) }

// A buffer is a sink.
type buffer struct{ programtest.Buffer }

// number returns the number that is written, once it is.
func (b *buffer) number(t *testing.T) int {
	t.Helper()
	for begin := time.Now(); b.String() == "" && time.Since(begin) < 10*time.Second; time.Sleep(time.Millisecond) {
	}
	n, err := strconv.Atoi(strings.TrimSpace(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestExecution(t *testing.T) {
	a := startAgent(t)
	for range 20 {
		var out, errs buffer
		p := a.start(t, backend.Spec{
			Shell: "cat; echo err >/dev/stderr; id -u; exit 7", Stdin: strings.NewReader("in\n"), Stdout: &out, Stderr: &errs,
		})
		exit, err := p.Exit()
		if err != nil || exit.Code != 7 || exit.Usage == nil {
			t.Fatalf("exit %+v, error %v", exit, err)
		}
		within(t, "output", p.OutputOver())
		if out.String() != "in\n"+user()+"\n" || errs.String() != "err\n" {
			t.Errorf("stdout %q, stderr %q", out.String(), errs.String())
		}
		if err := p.Kill(); err != nil {
			t.Errorf("kill after the end: %v", err)
		}
		if err := p.Signal(t.Context(), backend.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("signal after the end: %v", err)
		}
	}
}

// What is asked of a command that has ended is not done to the one that comes after
// it on the same stream.
func TestLateRequestsMissTheNextCommand(t *testing.T) {
	a := startAgent(t)
	for range 100 {
		p := a.start(t, backend.Spec{Shell: "true"})
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					p.Signal(t.Context(), backend.SIGKILL)
					p.DiscardOutput()
				}
			}
		}()
		p.Exit()
		within(t, "output", p.OutputOver())
		var out buffer
		q := a.start(t, backend.Spec{Shell: "sleep 0.005; echo hi; exit 7", Stdout: &out})
		exit, err := q.Exit()
		close(stop)
		<-stopped
		if err != nil || exit.Code != 7 || out.String() != "hi\n" {
			t.Fatalf("exit %+v, error %v, stdout %q", exit, err, out.String())
		}
	}
}

func TestRefusals(t *testing.T) {
	a := startAgent(t)
	tests := []struct {
		name string
		spec *backend.Spec
		want backend.Reason
	}{
		{"program", spec(backend.Spec{Argv: []string{"no-such"}}), backend.NotFound},
		{"user", &backend.Spec{Shell: "true", Dir: "/", User: "no-such"}, backend.BadUser},
		{"group", &backend.Spec{Shell: "true", Dir: "/", User: user() + ":no-such"}, backend.BadUser},
		{"root", &backend.Spec{Shell: "true", Dir: "/", User: "root"}, backend.BadUser},
		{"nobody", &backend.Spec{Shell: "true", Dir: "/"}, backend.BadUser},
		{"too-long", spec(backend.Spec{Argv: []string{"true", strings.Repeat("x", 20<<20)}}), backend.TooLong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := a.Start(t.Context(), tt.spec); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestKillReachesAll(t *testing.T) {
	a := startAgent(t)
	other := a.start(t, backend.Spec{Shell: "exec " + nap(1)})
	p := a.start(t, backend.Spec{
		Shell: fmt.Sprintf("trap '' TERM; env -i setsid sh -c '(%s &) ; exec %s' & %s & echo up; exec %s", nap(2), nap(3), nap(4), nap(5)),
	})
	for _, n := range []int{2, 3, 4, 5} {
		appears(t, nap(n))
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{2, 3, 4, 5} {
		if alive(nap(n)) {
			t.Errorf("%q is alive after the kill", nap(n))
		}
	}
	if exit, err := p.Exit(); err != nil || exit.Signal != backend.SIGKILL {
		t.Errorf("exit %+v, error %v", exit, err)
	}
	within(t, "output", p.OutputOver())
	if !alive(nap(1)) {
		t.Error("another execution died with it")
	}
	if err := other.Kill(); err != nil {
		t.Error(err)
	}
}

// A kill that succeeds has ended the command, so it is known how: nothing is made up.
func TestKillTellsTheEnd(t *testing.T) {
	a := startAgent(t)
	for range 300 {
		p := a.start(t, backend.Spec{Shell: "exec " + nap(12)})
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if exit, err := p.Exit(); err != nil || exit.Signal != backend.SIGKILL || exit.Usage == nil {
			t.Fatalf("exit %+v, error %v", exit, err)
		}
	}
}

// A supervisor that is stopped cannot tell how its command ended, which is dead all the same.
func TestKillDespiteAStoppedSupervisor(t *testing.T) {
	a := startAgent(t)
	var out buffer
	p := a.start(t, backend.Spec{Shell: "setsid " + nap(19) + " & echo $PPID; exec " + nap(19), Stdout: &out})
	appears(t, nap(19))
	syscall.Kill(out.number(t), syscall.SIGSTOP)
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	dies(t, nap(19))
	if _, err := p.Exit(); err == nil {
		t.Error("an outcome was made up")
	}
}

func TestContextEndsStart(t *testing.T) {
	a := startAgent(t)
	for i := range 60 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
		p, err := a.Start(ctx, spec(backend.Spec{Shell: "echo hi; " + nap(6) + " & exec " + nap(6)}))
		cancel()
		switch {
		case err == nil:
			if err := p.Kill(); err != nil {
				t.Error(err)
			}
		case !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("start: %v", err)
		}
		if alive(nap(6)) {
			t.Error("something is left of the command")
		}
	}
}

func TestHeldOutputHoldsTheCommand(t *testing.T) {
	a := startAgent(t)
	release := make(chan struct{})
	p := a.start(t, backend.Spec{Shell: "head -c 50000000 /dev/zero", Stdout: held(release)})
	q := a.start(t, backend.Spec{Shell: "echo hi"})
	if _, err := q.Exit(); err != nil { // the connection is not held
		t.Error(err)
	}
	exited := make(chan struct{})
	go func() {
		p.Exit()
		close(exited)
	}()
	select {
	case <-exited:
		t.Error("50 MB went somewhere")
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	within(t, "exit", exited)
}

// held is a sink that blocks until it is closed.
type held chan struct{}

func (h held) Write(p []byte) (int, error) {
	<-h
	return len(p), nil
}

func TestDiscardedOutputDoesNotBlock(t *testing.T) {
	a := startAgent(t)
	p := a.start(t, backend.Spec{Shell: "(sleep 0.1; head -c 5000000 /dev/zero; exec 2>&-; exec " + nap(7) + ") & exit 0"})
	if exit, err := p.Exit(); err != nil || exit.Code != 0 {
		t.Fatalf("exit %+v, error %v", exit, err)
	}
	p.DiscardOutput()
	appears(t, nap(7)) // it has come past its output
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	dies(t, nap(7))
}

func TestConnectionLossKillsAll(t *testing.T) {
	a := startAgent(t)
	p := a.start(t, backend.Spec{Shell: "setsid " + nap(8) + " & exec " + nap(8)})
	appears(t, nap(8))
	a.Close()
	dies(t, nap(8))
	if _, err := p.Exit(); err == nil {
		t.Error("an outcome was made up")
	}
	within(t, "output", p.OutputOver())
	within(t, "connection", a.Done())
	if _, err := a.Start(t.Context(), spec(backend.Spec{Shell: "true"})); err == nil {
		t.Error("a start on a closed connection")
	}
}

func TestDeadAgentKillsAll(t *testing.T) {
	a := startAgent(t)
	p := a.start(t, backend.Spec{Shell: "setsid " + nap(9) + " & exec " + nap(9)})
	appears(t, nap(9))
	a.cmd.Process.Kill()
	dies(t, nap(9))
	if _, err := p.Exit(); err == nil {
		t.Error("an outcome was made up")
	}
}

func TestDeadSupervisorsOrphansAreKilled(t *testing.T) {
	a := startAgent(t)
	p := a.start(t, backend.Spec{Shell: "setsid " + nap(10) + " & echo $PPID; exec " + nap(10), Stdout: &buffer{}})
	appears(t, nap(10))
	var out buffer
	q := a.start(t, backend.Spec{Shell: "setsid " + nap(11) + " & echo $PPID; exec " + nap(11), Stdout: &out})
	appears(t, nap(11))
	syscall.Kill(out.number(t), syscall.SIGKILL)
	if _, err := q.Exit(); err == nil {
		t.Error("an outcome was made up")
	}
	q.Kill()
	dies(t, nap(11))
	if !alive(nap(10)) {
		t.Error("another execution died with it")
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	if r := a.start(t, backend.Spec{Shell: "exit 3"}); true {
		if exit, err := r.Exit(); err != nil || exit.Code != 3 {
			t.Errorf("the next execution: exit %+v, error %v", exit, err)
		}
	}
}

// TestThreads checks what SupervisorThreads promises: a supervisor that has
// started, run, and killed has no more threads than that.
func TestThreads(t *testing.T) {
	a := startAgent(t)
	var out buffer
	for range 50 {
		p := a.start(t, backend.Spec{Shell: "sleep 0.01 & exec sleep 100"})
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	p := a.start(t, backend.Spec{Shell: "echo $PPID; ls /proc/$PPID/task | wc -l", Stdout: &out})
	if _, err := p.Exit(); err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(out.String())
	if len(fields) != 2 {
		t.Fatalf("output %q", out.String())
	}
	if n, _ := strconv.Atoi(fields[1]); n == 0 || n > agent.SupervisorThreads {
		t.Errorf("a supervisor has %d threads, and %d are promised", n, agent.SupervisorThreads)
	}
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", a.cmd.Process.Pid))
	t.Logf("a supervisor has %s threads, serve %d", fields[1], len(tasks))
}
