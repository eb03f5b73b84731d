//go:build linux && (amd64 || arm64)

package proc

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// listsChildren reports whether the kernel lists a task's children, which it need
// not (CONFIG_PROC_CHILDREN).
var listsChildren = sync.OnceValue(func() bool {
	_, err := os.Stat("/proc/thread-self/children")
	return err == nil
})

// A childLister tells the children of a process. What it tells may be outdated when it
// is read, and incomplete when the process forks meanwhile.
type childLister func(pid int) []int

// listChildren returns a childLister of all processes, for one pass over them: where
// the kernel does not list children, every process is looked at, once.
func listChildren() childLister {
	if listsChildren() {
		return childrenOf
	}
	children := make(map[int][]int)
	for pid, parent := range Parents() {
		children[parent] = append(children[parent], pid)
	}
	return func(pid int) []int { return children[pid] }
}

// Parents returns the parent of every process that is seen; one outside the pid
// namespace is 0.
func Parents() map[int]int {
	parents := make(map[int]int)
	for _, name := range readNames("/proc") {
		if pid, err := strconv.Atoi(name); err == nil {
			parents[pid] = parentOf(pid)
		}
	}
	return parents
}

// childrenOf returns the children that the kernel lists.
func childrenOf(pid int) []int {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task/"
	var pids []int
	for _, tid := range readNames(tasks) {
		list, _ := os.ReadFile(tasks + tid + "/children")
		for field := range strings.FieldsSeq(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

func readNames(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}

// A stat is what proc_pid_stat(5) tells of a process.
type stat struct {
	state   byte
	parent  int
	session int
	flags   uint64
	start   string // when it started, in ticks: with the pid it names the process
}

// statOf reads a process's stat; the zero stat is of none.
func statOf(pid int) stat {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	// The name before may hold anything, also parentheses.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return stat{}
	}
	parent, _ := strconv.Atoi(string(f[1]))
	session, _ := strconv.Atoi(string(f[3]))
	flags, _ := strconv.ParseUint(string(f[6]), 10, 64)
	return stat{state: f[0][0], parent: parent, session: session, flags: flags, start: string(f[19])}
}

// Exiting reports whether a process is about to end, and has not been reaped. From
// then on its sockets may be closed, but its children may still be its own.
func Exiting(pid int) bool {
	const exiting = 4 // PF_EXITING of the kernel's sched.h
	return statOf(pid).flags&exiting != 0
}

// Stopped reports whether a process is stopped, by a signal or by whoever traces it.
func Stopped(pid int) bool {
	state := statOf(pid).state
	return state == 'T' || state == 't'
}

func parentOf(pid int) int { return statOf(pid).parent }

// Name returns the kernel's name of a process, which the process may choose.
func Name(pid int) string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.TrimSuffix(string(b), "\n")
}

// processesOf returns the processes of each of some users, by real, effective or saved
// uid: any of them lets the user signal it. It looks once at every process there is.
func processesOf(uids ...int64) map[int64][]int {
	wanted := make(map[string]int64)
	for _, uid := range uids {
		wanted[strconv.FormatInt(uid, 10)] = uid
	}
	found := make(map[int64][]int)
	for _, name := range readNames("/proc") {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		b, _ := os.ReadFile("/proc/" + name + "/status")
		_, line, _ := strings.Cut(string(b), "\nUid:")
		line, _, _ = strings.Cut(line, "\n")
		owners := strings.Fields(line)
		slices.Sort(owners)
		for _, owner := range slices.Compact(owners) {
			if uid, ok := wanted[owner]; ok {
				found[uid] = append(found[uid], pid)
			}
		}
	}
	return found
}

// CheckProcfs says what is wrong with /proc for the caller, who finds processes in
// it: it must be there, and have the numbers that the caller's pid namespace has.
func CheckProcfs() error {
	const change = "mount a proc of the process's own pid namespace there"
	self, err := os.Readlink("/proc/self")
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s", err, change)
	case self != strconv.Itoa(os.Getpid()):
		return fmt.Errorf("/proc shows another pid namespace, where process %d is %s: %s", os.Getpid(), self, change)
	}
	return nil
}
