//go:build linux

package cgroup_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/cgroup"
)

// onMain has the process's first thread call functions.
var onMain = make(chan func())

func TestMain(m *testing.M) {
	runtime.LockOSThread()
	ended := make(chan int)
	go func() { ended <- m.Run() }()
	for {
		select {
		case f := <-onMain:
			f()
		case code := <-ended:
			os.Exit(code)
		}
	}
}

// While the first thread is in a group, the process itself is not: a service's group is made
// where it was.
func TestFirstThread(t *testing.T) {
	name := fmt.Sprintf("sandbox-test-first-%d", os.Getpid())
	parent, err := cgroup.NewParent(name)
	if err != nil {
		t.Skipf("the process may not make control groups: %v", err)
	}
	defer parent.Remove()
	group, err := parent.New("one", backend.Limits{PIDs: 9})
	if err != nil {
		t.Fatal(err)
	}
	made := make(chan error)
	onMain <- func() {
		made <- group.Place().Start(&syscall.SysProcAttr{}, func() error {
			result := make(chan error)
			go func() {
				other, err := cgroup.NewParent(name + "-other")
				if err == nil {
					if all, _ := filepath.Glob(filepath.Join(group.Place().Dirs[0], "*-other")); len(all) > 0 {
						err = fmt.Errorf("it is in %s", all)
					}
					err = errors.Join(err, other.Remove())
				}
				result <- err
			}()
			return <-result
		})
	}
	if err := errors.Join(<-made, group.Remove()); err != nil {
		t.Error(err)
	}
}

// A process is in its group, and limited, from its beginning, and nobody else is.
func TestStart(t *testing.T) {
	name := fmt.Sprintf("sandbox-test-%d", os.Getpid())
	parent, err := cgroup.NewParent(name)
	if err != nil {
		t.Skipf("the process may not make control groups: %v", err)
	}
	group, err := parent.New("one", backend.Limits{PIDs: 3})
	if err != nil {
		t.Fatal(err, parent.Remove())
	}
	defer func() {
		if err := errors.Join(group.Remove(), parent.Remove()); err != nil { // refused while anybody is in it
			t.Error(err)
		}
	}()
	within := "/" + name + "/one\n"
	out := run(t, group.Place(), "cat /proc/$$/cgroup; sleep .1 & sleep .1 & sleep .1 & wait") // with cat, and the thread that forks at first, it is three
	if n := strings.Count(out, within); n < len(group.Place().Dirs) {
		t.Errorf("the process is in %d of %d groups:\n%s", n, len(group.Place().Dirs), out)
	}
	if !strings.Contains(strings.ToLower(out), "fork") {
		t.Errorf("four processes could be made of three:\n%s", out)
	}
	for _, path := range []string{"/proc/self/cgroup", "/proc/thread-self/cgroup"} {
		if own, err := os.ReadFile(path); err != nil || strings.Contains(string(own), within) {
			t.Errorf("the caller is in the group too: %v\n%s", err, own)
		}
	}
}

// One goes from group to group, and into another of the same name.
func TestEntrance(t *testing.T) {
	name := fmt.Sprintf("sandbox-test-entrance-%d", os.Getpid())
	parent, err := cgroup.NewParent(name)
	if err != nil {
		t.Skipf("the process may not make control groups: %v", err)
	}
	defer func() {
		if err := parent.Remove(); err != nil {
			t.Error(err)
		}
	}()
	var e cgroup.Entrance
	defer e.Close()
	for _, one := range []string{"a", "a", "b", "a"} {
		group, err := parent.New(one, backend.Limits{PIDs: 9, Memory: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var out strings.Builder
			cmd := exec.Command("/bin/sh", "-c", "cat /proc/$$/cgroup")
			cmd.Stdout, cmd.SysProcAttr = &out, &syscall.SysProcAttr{}
			if err := e.Start(group.Place(), cmd.SysProcAttr, cmd.Start); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if n := strings.Count(out.String(), "/"+name+"/"+one+"\n"); n != len(group.Place().Dirs) {
				t.Errorf("in %d of %d groups:\n%s", n, len(group.Place().Dirs), &out)
			}
		}
		if err := group.Remove(); err != nil { // refused while a thread is in it
			t.Error(err)
		}
	}
}

// What cannot be entered as a whole is not entered, however often it is tried.
func TestEntranceFails(t *testing.T) {
	parent, err := cgroup.NewParent(fmt.Sprintf("sandbox-test-entrance-fails-%d", os.Getpid()))
	if err != nil {
		t.Skipf("the process may not make control groups: %v", err)
	}
	defer parent.Remove()
	group, err := parent.New("a", backend.Limits{PIDs: 9, Memory: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer group.Remove()
	p := group.Place()
	if p.Version != 1 {
		t.Skip("the second version has one group, which a call enters")
	}
	p.Dirs = append(slices.Clone(p.Dirs), filepath.Join(p.Dirs[0], "missing"))
	var e cgroup.Entrance
	defer e.Close()
	for range 2 {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{}
		if err := e.Start(p, cmd.SysProcAttr, cmd.Start); err == nil {
			cmd.Wait()
			t.Error("it starts")
		}
	}
}

// The second version has a call of its own for it.
func TestStartUnified(t *testing.T) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if before, after, _ := strings.Cut(line, " - "); strings.HasPrefix(after, "cgroup2 ") {
			dir := filepath.Join(strings.Fields(before)[4], fmt.Sprintf("sandbox-test-%d", os.Getpid()))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Skipf("the process may not make control groups: %v", err)
			}
			defer os.Remove(dir)
			out := run(t, cgroup.Place{Version: 2, Dirs: []string{dir}}, "cat /proc/$$/cgroup")
			if !strings.Contains(out, "/"+filepath.Base(dir)+"\n") {
				t.Errorf("the process is not in the group:\n%s", out)
			}
			return
		}
	}
	t.Skip("no control groups of the second version are mounted")
}

// run runs a shell in a group, and returns what it prints.
func run(t *testing.T, at cgroup.Place, text string) string {
	t.Helper()
	var out strings.Builder
	cmd := exec.Command("/bin/sh", "-c", text)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if err := at.Start(cmd.SysProcAttr, cmd.Start); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // it fails where it may not fork
	return out.String()
}

// What is left in a group ends with it.
func TestRemoveKills(t *testing.T) {
	parent, err := cgroup.NewParent(fmt.Sprintf("sandbox-test-kill-%d", os.Getpid()))
	if err != nil {
		t.Skipf("the process may not make control groups: %v", err)
	}
	group, err := parent.New("one", backend.Limits{PIDs: 9})
	if err != nil {
		t.Fatal(err, parent.Remove())
	}
	left := exec.Command("sleep", "60")
	left.SysProcAttr = &syscall.SysProcAttr{}
	if err := group.Place().Start(left.SysProcAttr, left.Start); err != nil {
		t.Error(err)
	}
	if err := errors.Join(group.Remove(), parent.Remove()); err != nil {
		t.Error(err)
	}
	if err := left.Wait(); left.ProcessState.ExitCode() != -1 {
		t.Errorf("it ended with %v", err)
	}
}

// Where a service can have no groups, it leaves none, and nothing where it runs.
func TestFailureLeavesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	name := fmt.Sprintf("sandbox-test-none-%d", os.Getpid())
	parent, err := cgroup.NewParent(name)
	if err == nil {
		parent.Remove()
		t.Skip("the process may make control groups")
	}
	if left, _ := os.ReadDir("."); len(left) > 0 {
		t.Errorf("%v was made here", left)
	}
	filepath.WalkDir("/sys/fs/cgroup", func(path string, _ os.DirEntry, _ error) error {
		if filepath.Base(path) == name {
			t.Errorf("%s is left", path)
		}
		return nil
	})
}
