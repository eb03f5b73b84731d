//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
)

// The controllers that are used.
const (
	memory = "memory"
	pids   = "pids"
	cpu    = "cpu"
)

var controllers = []string{memory, pids, cpu}

// A Parent is the control group of a service, in which it makes one for each sandbox. Its
// methods may be called concurrently.
type Parent struct {
	version int
	dirs    map[string]string // by controller; those of the second version are one
}

// A Group is a control group of one sandbox. Nil is none. Its methods may be called
// concurrently.
type Group struct {
	place Place
	oom   *OOM
}

// NewParent makes a service's control group, which has that name. It fails where the process
// may not make one, or may not have it limit memory and processes.
func NewParent(name string) (*Parent, error) {
	p, err := find()
	if err != nil {
		return nil, err
	}
	if !p.needs() {
		return nil, errNeeds
	}
	p.below(name)
	made := p.distinct()
	for _, dir := range made {
		if err = os.Mkdir(dir, 0o755); err != nil {
			return nil, errors.Join(err, p.Remove())
		}
	}
	if p.version == 2 {
		enable(p.dirs[memory])
		for c, dir := range p.dirs {
			if !slices.Contains(words(dir, "cgroup.subtree_control"), c) {
				delete(p.dirs, c)
			}
		}
	}
	if !p.needs() {
		return nil, errors.Join(errNeeds, remove(made...))
	}
	return p, nil
}

// below is where the second version lets a service make control groups.
const below = "run it in a group below a delegated one, as by systemd's Delegate=yes with DelegateSubgroup=service"

var errNeeds = errors.New("the service's control groups cannot limit memory and processes: in the second version " + below)

// needs reports whether there is what a service needs.
func (p *Parent) needs() bool { return p.dirs[memory] != "" && p.dirs[pids] != "" }

// find returns the control groups that the process may make others in.
func find() (*Parent, error) {
	mounts, err := mounted()
	if err != nil {
		return nil, err
	}
	own, err := ownGroups()
	if err != nil {
		return nil, err
	}
	p := &Parent{version: 1, dirs: make(map[string]string)}
	for _, c := range controllers {
		if m, ok := mounts[c]; ok {
			p.dirs[c] = m.dir(own[c])
		}
	}
	if p.dirs[memory] != "" {
		return p, nil
	}
	m, ok := mounts[""]
	if !ok {
		return nil, errors.New("no control groups are mounted")
	}
	dir := highest(m, own[""])
	if dir == "" {
		return nil, errors.New("the service may not make control groups: run it as root, or " + below)
	}
	if !mayStartInto() {
		return nil, errors.New("no process can be started in a control group: clone3 is missing, or a seccomp profile has it not exist")
	}
	p.version = 2
	enable(dir)
	for _, c := range controllers {
		if slices.Contains(words(dir, "cgroup.subtree_control"), c) {
			p.dirs[c] = dir
		}
	}
	return p, nil
}

// enable has the groups in dir be limited, as far as the kernel lets it.
func enable(dir string) {
	for _, c := range controllers {
		os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0)
	}
}

// highest returns the highest group above one that the process may change, or nothing.
func highest(m mount, group string) (dir string) {
	for d := m.dir(group); ; d = filepath.Dir(d) {
		if unix.Access(d, unix.W_OK) != nil || unix.Access(filepath.Join(d, "cgroup.procs"), unix.W_OK) != nil {
			return dir
		}
		dir = d
		if d == m.at {
			return dir
		}
	}
}

// A mount is where a hierarchy is mounted.
type mount struct{ root, at string }

// dir returns the directory of a group.
func (m mount) dir(group string) string {
	if rest, ok := strings.CutPrefix(group, m.root); ok {
		group = rest
	}
	return filepath.Join(m.at, group)
}

// mounted returns where the controllers of the first version are mounted, and under no name
// the second version.
func mounted() (map[string]mount, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	all := make(map[string]mount)
	for line := range strings.Lines(string(b)) {
		before, after, _ := strings.Cut(line, " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		if len(place) < 5 || len(kind) < 3 {
			continue
		}
		m := mount{root: strings.TrimSuffix(place[3], "/"), at: place[4]}
		switch kind[0] {
		case "cgroup":
			for option := range strings.SplitSeq(kind[2], ",") {
				all[option] = m
			}
		case "cgroup2":
			all[""] = m
		}
	}
	return all, nil
}

// ownGroups returns the process's groups by controller, and under no name that of the second
// version. They are the calling thread's: the first thread may be where it starts something.
func ownGroups() (map[string]string, error) {
	b, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			for c := range strings.SplitSeq(f[1], ",") {
				all[c] = f[2]
			}
		}
	}
	return all, nil
}

// words returns those in a group's file.
func words(dir, file string) []string {
	b, _ := os.ReadFile(filepath.Join(dir, file))
	return strings.Fields(string(b))
}

// distinct returns each directory once.
func (p *Parent) distinct() []string {
	var dirs []string
	for _, c := range controllers {
		if dir := p.dirs[c]; dir != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// needed returns those that hold a limit. Each of the first version costs every start.
func (p *Parent) needed(l backend.Limits) *Parent {
	some := &Parent{p.version, maps.Clone(p.dirs)}
	for c, limited := range map[string]bool{memory: l.Memory > 0, pids: l.PIDs > 0, cpu: l.CPUs > 0} {
		if !limited {
			delete(some.dirs, c)
		}
	}
	return some
}

// LimitsCPUs reports whether groups can limit processors too.
func (p *Parent) LimitsCPUs() bool { return p.dirs[cpu] != "" }

// Remove removes the service's group, with those in it, and kills what is left in these.
func (p *Parent) Remove() (all error) {
	for _, dir := range p.distinct() {
		entries, _ := os.ReadDir(dir)
		for _, entry := range entries {
			if entry.IsDir() {
				all = errors.Join(all, remove(filepath.Join(dir, entry.Name())))
			}
		}
		all = errors.Join(all, remove(dir))
	}
	return all
}

// RemoveStale removes the group of that name of a service that has died.
func RemoveStale(name string) error {
	p, err := find()
	if err != nil {
		return nil // then it had none
	}
	p.below(name)
	return p.Remove()
}

// below makes p the group of that name in what it is.
func (p *Parent) below(name string) {
	for c, dir := range p.dirs {
		p.dirs[c] = filepath.Join(dir, name)
	}
}

// New makes a group of that name. A limit that is 0 or negative is none; kills for memory are
// counted where that is limited.
func (p *Parent) New(name string, l backend.Limits) (*Group, error) {
	g := &Group{place: Place{Version: p.version}}
	for _, dir := range p.needed(l).distinct() {
		g.place.Dirs = append(g.place.Dirs, filepath.Join(dir, name))
	}
	err := g.make(p, name, l)
	if err == nil && l.Memory > 0 {
		g.oom, err = OpenOOM(filepath.Join(p.dirs[memory], name), p.version)
	}
	if err != nil {
		return nil, errors.Join(err, g.Remove())
	}
	return g, nil
}

func (g *Group) make(p *Parent, name string, l backend.Limits) error {
	for _, dir := range g.place.Dirs {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	const period = 100_000 // microseconds
	var err error
	set := func(controller, file string, value any, optional bool) {
		if err != nil {
			return
		}
		err = os.WriteFile(filepath.Join(p.dirs[controller], name, file), fmt.Append(nil, value), 0)
		if optional && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
			err = nil // the kernel counts no swap
		}
	}
	first := p.version == 1
	if l.Memory > 0 {
		if first {
			set(memory, "memory.limit_in_bytes", l.Memory, false)
			set(memory, "memory.memsw.limit_in_bytes", l.Memory, true)
		} else {
			set(memory, "memory.max", l.Memory, false)
			set(memory, "memory.swap.max", 0, true)
		}
	}
	if l.PIDs > 0 {
		set(pids, "pids.max", l.PIDs, false)
	}
	if quota := int64(l.CPUs * period); l.CPUs > 0 {
		if first {
			set(cpu, "cpu.cfs_period_us", period, false)
			set(cpu, "cpu.cfs_quota_us", quota, false)
		} else {
			set(cpu, "cpu.max", fmt.Sprintf("%d %d", quota, period), false)
		}
	}
	return err
}

// Place returns where the group is.
func (g *Group) Place() Place {
	if g == nil {
		return Place{}
	}
	return g.place
}

// OOMKills returns how many processes of the group the kernel has killed for memory.
func (g *Group) OOMKills() int {
	if g == nil {
		return 0
	}
	return g.oom.Kills()
}

// Remove removes the group, and kills what is left in it.
func (g *Group) Remove() error {
	if g == nil {
		return nil
	}
	g.oom.Close()
	return remove(g.place.Dirs...)
}

// removeTime is how long the kernel may take to end what is in a group, and to see that it
// is empty.
const removeTime = 5 * time.Second

func remove(dirs ...string) (all error) {
	for _, dir := range dirs {
		begin := time.Now()
		err := unix.Rmdir(dir)
		for ; err == unix.EBUSY && time.Since(begin) < removeTime; err = unix.Rmdir(dir) {
			kill(dir)
			time.Sleep(time.Millisecond)
		}
		if err == unix.EROFS && unix.Access(dir, unix.F_OK) == unix.ENOENT {
			err = unix.ENOENT // as in a container, whose groups are read-only, and where none could be made
		}
		if err != nil && err != unix.ENOENT {
			all = errors.Join(all, &os.PathError{Op: "rmdir", Path: dir, Err: err})
		}
	}
	return all
}

// kill kills the processes of a group. Their numbers may be others' by now: who has one is
// held, and looked for in the group once more.
func kill(dir string) {
	const file = "cgroup.procs"
	for _, number := range words(dir, file) {
		pid, _ := strconv.Atoi(number)
		if pid == os.Getpid() { // a thread of ours is there for a moment
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if slices.Contains(words(dir, file), number) {
			unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		unix.Close(fd)
	}
}
