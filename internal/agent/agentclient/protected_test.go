//go:build linux && (amd64 || arm64)

package agentclient_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// asKiller is the variable of the environment that makes the test program one that tries to
// end the agent whose number it holds.
const asKiller = "SANDBOX_TEST_KILLER"

// kill tries all ways to signal the agent, says which succeed, and then signals all it can.
func kill(agent string) {
	pid, _ := strconv.Atoi(agent)
	for _, task := range tasks(pid) {
		for way, errno := range map[string]error{
			"kill":   unix.Kill(task, unix.SIGKILL),
			"tgkill": unix.Tgkill(pid, task, unix.SIGKILL),
			"stop":   unix.Tgkill(pid, task, unix.SIGSTOP),
			"queue":  queue(pid, task),
			"pidfd":  signalByDescriptor(task),
			"limit":  unix.Prlimit(task, unix.RLIMIT_CPU, &unix.Rlimit{Max: 1}, nil),
		} {
			if errno == nil {
				fmt.Println(way, task)
			}
		}
	}
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, &unix.Rlimit{}, nil); err != nil {
		fmt.Println("its own limit:", err)
	}
	fmt.Println("done")
	time.Sleep(50 * time.Millisecond) // until it is known that it runs
	unix.Kill(-1, unix.SIGKILL)       // its supervisor too, with which it ends
}

func tasks(pid int) (tasks []int) {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, path := range paths {
		task, _ := strconv.Atoi(filepath.Base(path))
		tasks = append(tasks, task)
	}
	return tasks
}

func queue(pid, task int) error {
	info := [32]int32{int32(unix.SIGKILL), 0, -1} // SI_QUEUE
	_, _, errno := unix.Syscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(pid), uintptr(task), uintptr(unix.SIGKILL), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func signalByDescriptor(task int) error {
	const thread = unix.O_EXCL // PIDFD_THREAD
	fd, err := unix.PidfdOpen(task, thread)
	if err != nil {
		return err
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// startProtected starts an agent that runs as the commands' user.
func startProtected(t *testing.T) *agentProcess {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("it needs root, to become somebody who has nothing to lose")
	}
	uid, _ := strconv.Atoi(user())
	a := launch{uid: uint32(uid)}.start(t)
	if !a.Protected() {
		t.Skip("the kernel has no Landlock that scopes signals (Linux 6.12)")
	}
	return a
}

// forkServer returns the process that starts the agent's supervisors, or 0.
func (a *agentProcess) forkServer() int {
	for _, task := range tasks(a.cmd.Process.Pid) {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", a.cmd.Process.Pid, task))
		for child := range strings.FieldsSeq(string(children)) {
			line, _ := os.ReadFile("/proc/" + child + "/cmdline")
			if strings.Contains(string(line), "forkserver") {
				pid, _ := strconv.Atoi(child)
				return pid
			}
		}
	}
	return 0
}

// prints fails the test unless a command does what is to be.
func (a *agentProcess) prints(t *testing.T, shell, want string) {
	t.Helper()
	var out buffer
	exit, err := a.start(t, backend.Spec{Shell: shell, Stdout: &out}).Exit()
	if err != nil || exit.Code != 0 || out.String() != want {
		t.Errorf("%s: printed %q, %+v, %v, want %q", shell, out.String(), exit, err, want)
	}
}

// Where the agent runs as the commands' user, none of them can signal it, its threads or what
// starts it, and the next command runs, whatever one has killed.
func TestCommandsCannotSignalTheAgent(t *testing.T) {
	a := startProtected(t)
	self := programtest.PublicSelf(t)
	for range 3 {
		var out buffer
		s := spec(backend.Spec{Argv: []string{self}, Stdout: &out})
		s.Env = append(s.Env, asKiller+"="+strconv.Itoa(a.cmd.Process.Pid))
		p, err := a.Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		p.Exit()
		if got := out.String(); got != "done\n" {
			t.Errorf("it could signal the agent: %s", got)
		}
		a.prints(t, "echo on", "on\n")
	}
}

// Commands of one sandbox signal each other as everywhere.
func TestCommandsSignalEachOther(t *testing.T) {
	a := startProtected(t)
	victim := a.start(t, backend.Spec{Shell: "exec " + nap(31)})
	appears(t, nap(31))
	a.prints(t, "pkill -f '[s]"+nap(31)[1:]+"' && echo killed", "killed\n")
	if exit, err := victim.Exit(); err != nil || exit.Signal != backend.SIGTERM {
		t.Errorf("the victim: %+v, %v", exit, err)
	}
}

// A fork server that is stopped or killed is replaced.
func TestForkServerIsReplaced(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		t.Run(s.String(), func(t *testing.T) {
			a := startProtected(t)
			a.prints(t, "echo hi", "hi\n")
			before := a.forkServer()
			syscall.Kill(before, s)
			var all sync.WaitGroup
			for range 8 { // more than there are supervisors ready
				all.Go(func() { a.prints(t, "sleep 0.1; echo hi", "hi\n") })
			}
			all.Wait()
			for begin := time.Now(); a.forkServer() == before || a.forkServer() == 0; time.Sleep(10 * time.Millisecond) {
				if time.Since(begin) > 20*time.Second {
					t.Fatalf("the fork server was %d and is %d", before, a.forkServer())
				}
			}
		})
	}
}

// Whatever is killed of the agent's processes while commands start, none runs twice, and one
// that is said not to have been started has not run.
func TestNoStartIsLostOrRepeated(t *testing.T) {
	a := startProtected(t)
	uid, _ := strconv.Atoi(user())
	file := filepath.Join(programtest.OwnDir(t, uid), "ran")
	stop := make(chan struct{})
	var killer, all sync.WaitGroup
	killer.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(n%20) * time.Millisecond):
			}
			if pid := a.forkServer(); pid > 0 {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	var mu sync.Mutex
	ended := make(map[string]error)
	for w := range 4 {
		all.Go(func() {
			for n := range 25 {
				id := fmt.Sprintf("%d-%d", w, n)
				// Its supervisor ends with it, so that the next command takes a new one.
				p, err := a.Start(t.Context(), spec(backend.Spec{Shell: "echo " + id + " >>" + file + "; kill -9 $PPID"}))
				if err == nil {
					p.Exit()
				}
				mu.Lock()
				ended[id] = err
				mu.Unlock()
			}
		})
	}
	all.Wait()
	close(stop)
	killer.Wait()
	lines, _ := os.ReadFile(file)
	failed := 0
	for id, err := range ended {
		ran := bytes.Count(append([]byte("\n"), lines...), []byte("\n"+id+"\n"))
		if refused := (*backend.StartError)(nil); errors.As(err, &refused) {
			failed++
			if ran != 0 {
				t.Errorf("%s was not started, and ran %d times: %v", id, ran, err)
			}
		} else if ran > 1 || err == nil && ran != 1 {
			t.Errorf("%s ran %d times: %v", id, ran, err)
		}
	}
	t.Logf("%d of %d were not started", failed, len(ended))
	for begin := time.Now(); ; { // what was killed last may have been meant for the next one
		_, err := a.Start(t.Context(), spec(backend.Spec{Shell: "true"}))
		if err == nil {
			break
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatal(err)
		}
	}
}
