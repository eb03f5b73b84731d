//go:build linux && (amd64 || arm64)

package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/local"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// pids returns the processes that have args in their command line, and, unless it
// is 0, that parent.
func pids(args string, parent int) []int {
	var found []int
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		cmdline, _ := os.ReadFile(dir + "/cmdline")
		status, _ := os.ReadFile(dir + "/status")
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if strings.Contains(strings.ReplaceAll(string(cmdline), "\x00", " "), args) &&
			(parent == 0 || strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", parent))) {
			found = append(found, pid)
		}
	}
	return found
}

// eventually fails the test when ok does not come true soon.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}

// nap returns the arguments of a sleep that no other test has.
func nap(n int) string { return fmt.Sprintf("sleep %d.%d", 200_000+n, os.Getpid()) }

func alive(args string) bool { return len(pids(args, 0)) > 0 }

// TestServiceKilled checks that nothing runs on when the service is killed.
func TestServiceKilled(t *testing.T) {
	service := exec.Command(os.Args[0])
	service.Env = append(os.Environ(), "TMPDIR="+programtest.PublicDir(t),
		programtest.AsService+"=setsid "+nap(1)+" & trap '' TERM HUP; echo up; exec "+nap(1))
	service.Stderr = os.Stderr
	out, err := service.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		t.Errorf("got %q, %v", line, err)
	}
	agents := pids("sandbox-agent", service.Process.Pid)
	if len(agents) != 1 {
		t.Fatalf("agents: %v", agents)
	}
	supervisors := pids("sandbox-agent supervise", agents[0])
	service.Process.Kill()
	service.Wait()
	eventually(t, "the command's end", func() bool { return !alive(nap(1)) })
	eventually(t, "the agent's end", func() bool {
		for _, pid := range append(agents, supervisors...) {
			if cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(cmdline), "sandbox-agent") {
				return false
			}
		}
		return true
	})
}

func TestServiceKilledOrdinaryUser(t *testing.T) { asOrdinaryUser(t, "^TestServiceKilled$") }

// TestAgentKilled checks that what ran under an agent that died is dead and
// unknown, and that the sandbox goes on with another.
func TestAgentKilled(t *testing.T) {
	i := newInstance(t, newBackend(t, nil), "sbx_1")
	before := output(t, i, backend.Spec{Shell: "echo kept >file; id -u"})
	p := start(t, i, backend.Spec{Shell: "setsid " + nap(2) + " & exec " + nap(2)})
	eventually(t, "the commands", func() bool { return len(pids(nap(2), 0)) >= 2 })
	for _, pid := range pids("sandbox-agent local", os.Getpid()) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if exit, err := p.Exit(); err == nil {
		t.Errorf("an outcome was made up: %+v", exit)
	}
	<-p.OutputOver()
	p.Kill()
	eventually(t, "the command's end", func() bool { return !alive(nap(2)) })
	eventually(t, "the next agent", func() bool {
		q, err := i.Start(t.Context(), &backend.Spec{Shell: "exit 3", Stdout: os.Stdout, Stderr: os.Stderr})
		if err != nil {
			return false
		}
		exit, err := q.Exit()
		return err == nil && exit.Code == 3
	})
	if after := output(t, i, backend.Spec{Shell: "cat file; id -u"}); after != "kept\n"+before {
		t.Errorf("got %q", after)
	}
}

// TestSupervisorKilled checks that a supervisor's death ends its execution only.
func TestSupervisorKilled(t *testing.T) {
	i := newInstance(t, newBackend(t, nil), "sbx_1")
	other := start(t, i, backend.Spec{Shell: "exec " + nap(3)})
	p := start(t, i, backend.Spec{Shell: "setsid " + nap(4) + " & exec " + nap(4)})
	eventually(t, "the commands", func() bool { return len(pids(nap(4), 0)) >= 2 && alive(nap(3)) })
	supervisors := make(map[int]bool)
	for _, agent := range pids("sandbox-agent local", os.Getpid()) {
		for _, pid := range pids("sandbox-agent supervise", agent) {
			if len(pids(nap(4), pid)) > 0 {
				supervisors[pid] = true
			}
		}
	}
	if len(supervisors) != 1 {
		t.Fatalf("supervisors: %v", supervisors)
	}
	for pid := range supervisors {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if exit, err := p.Exit(); err == nil {
		t.Errorf("an outcome was made up: %+v", exit)
	}
	if err := p.Kill(); err != nil {
		t.Errorf("kill: %v", err)
	}
	if alive(nap(4)) {
		t.Error("its orphans are alive after the kill")
	}
	if !alive(nap(3)) {
		t.Error("another execution died with it")
	}
	if err := other.Kill(); err != nil {
		t.Error(err)
	}
}

// TestSupervisorIsClosed checks that commands can read nothing of the process that
// has started them.
func TestSupervisorIsClosed(t *testing.T) {
	i := newInstance(t, newBackend(t, nil), "sbx_1")
	out := output(t, i, backend.Spec{Shell: `
for f in environ maps mem; do head -c 1 /proc/$PPID/$f 2>/dev/null && echo "$f is open"; done
ls /proc/$PPID/fd/ >/dev/null 2>&1 && echo "fd is open"
grep -q "NoNewPrivs:	1" /proc/self/status || echo "privileges can be gained"
grep -q "CapBnd:	0*$" /proc/self/status || [ ` + strconv.Itoa(os.Geteuid()) + ` != 0 ] || echo "capabilities are left"
cat /proc/self/oom_score_adj`})
	if out != "500\n" {
		t.Errorf("got %q", out)
	}
}

func TestSupervisorIsClosedOrdinaryUser(t *testing.T) { asOrdinaryUser(t, "^TestSupervisorIsClosed$") }

// TestDestroyFindsWhatIsNobodys checks that a sandbox that has a user of its own is
// emptied even when everybody who knew of its processes has died.
func TestDestroyFindsWhatIsNobodys(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, which has a user for each sandbox")
	}
	i := newInstance(t, newBackend(t, nil), "sbx_1")
	p := start(t, i, backend.Spec{Shell: "setsid " + nap(6) + " & exec " + nap(6)})
	eventually(t, "the commands", func() bool { return len(pids(nap(6), 0)) >= 2 })
	for _, agent := range pids("sandbox-agent local", os.Getpid()) {
		supervisors := pids("sandbox-agent supervise", agent)
		for _, pid := range append(supervisors, agent) { // none has time to act
			syscall.Kill(pid, syscall.SIGSTOP)
		}
		for _, pid := range append(supervisors, agent) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if exit, err := p.Exit(); err == nil {
		t.Errorf("an outcome was made up: %+v", exit)
	}
	if !alive(nap(6)) {
		t.Fatal("nothing is left to find")
	}
	if err := i.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if alive(nap(6)) {
		t.Error("it is alive")
	}
}

// TestDestroyTogether checks that each of many sandboxes that are destroyed at the same
// time is emptied of what is its user's, and that others are left alone.
func TestDestroyTogether(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, which has a user for each sandbox")
	}
	b := newBackend(t, nil)
	type owned struct {
		backend.Instance
		stranger *exec.Cmd // of the sandbox's user, and not started by the sandbox
		ended    chan struct{}
		file     string
	}
	all := make([]owned, 9)
	for n := range all {
		o := &all[n]
		o.Instance = newInstance(t, b, fmt.Sprintf("sbx_%d", n))
		o.file = fmt.Sprintf("/tmp/sandbox-together-%d-%d", os.Getpid(), n)
		uid, err := strconv.Atoi(strings.TrimSpace(output(t, o, backend.Spec{Shell: "id -u; >" + o.file})))
		if err != nil {
			t.Fatal(err)
		}
		o.stranger = exec.Command("sleep", "600")
		o.stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		if err := o.stranger.Start(); err != nil {
			t.Fatal(err)
		}
		o.ended = make(chan struct{})
		go func() {
			o.stranger.Wait()
			close(o.ended)
		}()
	}
	other, all := all[0], all[1:]
	var together errgroup.Group
	for _, o := range all {
		together.Go(func() error { return o.Destroy(t.Context()) })
	}
	if err := together.Wait(); err != nil {
		t.Error(err)
	}
	for _, o := range all {
		eventually(t, "the end of a process", func() bool {
			select {
			case <-o.ended:
				return true
			default:
				return false
			}
		})
		if _, err := os.Stat(o.file); err == nil {
			t.Errorf("%s is left", o.file)
		}
	}
	select {
	case <-other.ended:
		t.Error("a process of another sandbox has ended")
	default:
	}
	if _, err := os.Stat(other.file); err != nil {
		t.Error(err)
	}
	if err := other.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	<-other.ended
}

func TestUsersAreTheirOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, which has a user for each sandbox")
	}
	b, other := newBackend(t, nil), newBackend(t, nil)
	seen := make(map[string]bool)
	var last backend.Instance
	for n := range 6 {
		from := b
		if n%2 == 1 {
			from = other
		}
		if n == 4 {
			if err := last.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		last = newInstance(t, from, fmt.Sprintf("sbx_%d", n))
		id := output(t, last, backend.Spec{Shell: "id -u; id -g; id -G"})
		if seen[id] || strings.HasPrefix(id, "0\n") {
			t.Errorf("user %q again", id)
		}
		seen[id] = true
	}
}

func TestUsersRunOut(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, which has a user for each sandbox")
	}
	b := newBackend(t, &local.Options{Users: local.UserRange{First: 1_900_000_000, Count: 2}})
	one, two := newInstance(t, b, "sbx_1"), newInstance(t, b, "sbx_2")
	if _, err := b.Create(t.Context(), &backend.Config{ID: "sbx_3"}); err == nil {
		t.Error("a third user of two")
	}
	if err := one.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	three := newInstance(t, b, "sbx_3")
	if out := output(t, three, backend.Spec{Shell: "id -u"}); out == output(t, two, backend.Spec{Shell: "id -u"}) {
		t.Errorf("user %q twice", out)
	}
	if _, err := local.New(&local.Options{Users: local.UserRange{First: 0, Count: 5}}); err == nil {
		t.Error("root was taken for a sandbox's user")
	}
}

func TestDirectoriesAreClosed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, which has a user for each sandbox")
	}
	b := newBackend(t, nil)
	one, two := newInstance(t, b, "sbx_1"), newInstance(t, b, "sbx_2")
	home := strings.TrimSpace(output(t, one, backend.Spec{Shell: "echo secret >file; chmod 777 . file; pwd"}))
	for _, text := range []string{"cat " + home + "/file", "echo x >" + home + "/new", "ls " + home + "/../.."} {
		if out := output(t, two, backend.Spec{Shell: text + " 2>&1"}); !strings.Contains(out, "denied") {
			t.Errorf("%s: %q", text, out)
		}
	}
}

func TestClosedBase(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, which has a user for each sandbox")
	}
	closed := filepath.Join(programtest.PublicDir(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := local.New(&local.Options{Dir: closed + "/base"}); err == nil || !strings.Contains(err.Error(), closed+" is closed") {
		t.Errorf("got %v", err)
	}
}

// TestDestroyKillsWhatIsLeft checks that what executions left running, in whatever
// way, ends with the sandbox.
func TestDestroyKillsWhatIsLeft(t *testing.T) {
	i := newInstance(t, newBackend(t, nil), "sbx_1")
	p := start(t, i, backend.Spec{Shell: "setsid " + nap(5) + " </dev/null >/dev/null 2>&1 & exit 0"})
	if _, err := p.Exit(); err != nil {
		t.Fatal(err)
	}
	p.DiscardOutput()
	eventually(t, "the command", func() bool { return alive(nap(5)) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := i.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	if alive(nap(5)) {
		t.Error("it is alive")
	}
	if _, err := i.Start(t.Context(), &backend.Spec{Shell: "true"}); err == nil || errors.As(err, new(*backend.StartError)) {
		t.Errorf("a start in a destroyed sandbox: %v", err)
	}
}

// TestUsersOfTwoRanges checks that a number comes back only when its own range is
// spent, whatever services with other ranges do meanwhile.
func TestUsersOfTwoRanges(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, which has a user for each sandbox")
	}
	one := newBackend(t, &local.Options{Users: local.UserRange{First: 1_800_000_000, Count: 50}})
	two := newBackend(t, &local.Options{Users: local.UserRange{First: 1_810_000_000, Count: 50}})
	seen := make(map[string]bool)
	for range 5 {
		for _, b := range []backend.Backend{one, two} {
			i := newInstance(t, b, "sbx_1")
			id := output(t, i, backend.Spec{Shell: "id -u"})
			if seen[id] {
				t.Errorf("user %q again", id)
			}
			seen[id] = true
			if err := i.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestNoHostNames checks that a start error has no name of the host's.
func TestNoHostNames(t *testing.T) {
	dir := programtest.PublicDir(t)
	i := newInstance(t, newBackend(t, &local.Options{Dir: dir}), "sbx_1")
	for _, s := range []backend.Spec{{Shell: "true", Dir: "none"}, {Shell: "true", Dir: "/workspace/none"}, {Argv: []string{"./none"}}} {
		s.Stdout, s.Stderr = io.Discard, io.Discard
		if _, err := i.Start(t.Context(), &s); err == nil || strings.Contains(err.Error(), dir) {
			t.Errorf("start in %q: %v", s.Dir, err)
		}
	}
}

// TestLeftovers checks that nothing of a sandbox's user is left on the host when it is
// closed.
func TestLeftovers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, which has a user for each sandbox")
	}
	i := newInstance(t, newBackend(t, nil), "sbx_1")
	name := fmt.Sprintf("sandbox-leftover-%d", os.Getpid())
	text := "ipcmk -M 4096 -S 1 -Q >/dev/null 2>&1; id -u; for d in /tmp /var/tmp /dev/shm; do mkdir -p $d/" + name + "/closed/in; echo >$d/" + name + "/f; echo >$d/" + name + ".f; chmod 0 $d/" + name + "/closed; done"
	uid := strings.TrimSpace(output(t, i, backend.Spec{Shell: text}))
	if left, _ := filepath.Glob("/tmp/" + name + "*"); len(left) != 2 {
		t.Fatalf("there are %v", left)
	}
	if err := i.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		if left, _ := filepath.Glob(dir + "/" + name + "*"); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	}
	for _, table := range []string{"shm", "sem", "msg"} {
		if b, err := os.ReadFile("/proc/sysvipc/" + table); err == nil && strings.Contains(string(b), " "+uid+" ") {
			t.Errorf("%s of user %s is left:\n%s", table, uid, b)
		}
	}
}
