//go:build linux && (amd64 || arm64)

package proc

import (
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
)

// A UserSignaler is a thread that can signal as somebody else. It exists before
// it is needed: a fork bomb may leave no room for a new one.
type UserSignaler struct {
	calls chan call
	kept  atomic.Int64 // who the thread stays
	locks int
	mu    sync.Mutex // does within the process what locks does between them
}

type call struct {
	uid  int
	s    unix.Signal // to all of the user's processes
	as   func()      // or what to do as the user, of whom no process is left
	done chan struct{}
}

// NewUserSignaler starts the thread. The calling goroutine must be locked to the
// process's first thread: others look at that one to see whether they may signal
// the process. Locks is a file that all agents of a machine or container share;
// its byte at a user's number is locked while that user is stopped.
func NewUserSignaler(locks int) *UserSignaler {
	i := &UserSignaler{calls: make(chan call), locks: locks}
	ready := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(ready)
		kept := 0
		for c := range i.calls {
			if kept > 0 && (kept != c.uid || c.as != nil) {
				beRoot()
				kept = 0
			}
			switch {
			case c.as != nil:
				doAs(c.uid, c.as)
			case kept > 0 && kept == c.uid:
				signalAll(c.s)
			case int64(c.uid) == i.kept.Load() && become(c.uid):
				kept = c.uid
				signalAll(c.s)
			default:
				signalAs(c.uid, c.s)
			}
			close(c.done)
		}
	}()
	<-ready
	return i
}

// nobody is a user that no process runs as. A process may signal another when
// its real or its effective uid fits; with nobody as the real one, the thread can
// do no more than its effective uid can, and its victims cannot signal it.
const nobody = 0xfffffffd

// Keep has the thread stay the user of that number between signals: to become it takes
// memory, which bombs may have used up.
func (i *UserSignaler) Keep(uid int) {
	i.kept.Store(int64(uid))
	i.User(uid).signal(0)
}

// become makes the calling thread one that can signal what is uid's, and nothing else. The
// system calls are raw ones: the wrappers change the whole process. The saved uid stays
// root, which is the way back.
func become(uid int) bool {
	_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, uintptr(uid), 0)
	return errno == 0
}

func beRoot() { unix.RawSyscall(unix.SYS_SETRESUID, 0, 0, 0) }

// signalAll sends s to every process that the calling thread can signal.
func signalAll(s unix.Signal) {
	all := -1
	unix.RawSyscall(unix.SYS_KILL, uintptr(all), uintptr(s), 0)
}

// signalAs sends s to every process of uid, from the calling thread.
func signalAs(uid int, s unix.Signal) {
	if !become(uid) {
		// A user namespace without nobody's number.
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), 0); errno != 0 {
			return
		}
	}
	signalAll(s)
	beRoot()
}

// doAs calls f as uid, from the calling thread. The real user is that one too: a
// process of it could signal the thread. F makes raw system calls only.
func doAs(uid int, f func()) {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), 0); errno != 0 {
		return
	}
	f()
	beRoot()
}

// A User is one whose processes belong to one sandbox alone.
type User struct {
	uid int
	as  *UserSignaler
}

// User returns the user of that number, which must not be 0.
func (i *UserSignaler) User(uid int) *User { return &User{uid, i} }

func (u *User) signal(s unix.Signal) {
	c := call{uid: u.uid, s: s, done: make(chan struct{})}
	u.as.calls <- c
	<-c.done
}

// processes returns those of the user.
func (u *User) processes() []int { return processesOf(int64(u.uid))[int64(u.uid)] }

// stopped calls f while everything of the user is stopped. What was not stopped
// before and is left goes on then.
func (u *User) stopped(f func()) {
	// Two at once would each take what the other has stopped for stopped before.
	u.as.mu.Lock()
	defer u.as.mu.Unlock()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(u.uid), Len: 1}
	unix.FcntlFlock(uintptr(u.as.locks), unix.F_SETLKW, &lock)
	defer func() {
		lock.Type = unix.F_UNLCK
		unix.FcntlFlock(uintptr(u.as.locks), unix.F_SETLK, &lock)
	}()
	before := make(map[int]string)
	for _, pid := range u.processes() {
		if st := statOf(pid); st.state == 'T' {
			before[pid] = st.start
		}
	}
	u.signal(unix.SIGSTOP)
	f()
	for _, pid := range u.processes() {
		if st := statOf(pid); before[pid] != st.start {
			u.resume(pid, st.start)
		}
	}
}

// resume lets a process of the user go on that does not descend from the caller. It
// need not have stopped yet: a processor that is busy elsewhere stops it later, unless
// it is told first to go on.
func (u *User) resume(pid int, start string) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	for p := pid; p > 1; p = parentOf(p) {
		if p == os.Getpid() {
			return
		}
	}
	if err == nil {
		unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0)
	} else if statOf(pid).start == start {
		unix.Kill(pid, unix.SIGCONT) // a kernel before 5.3, or no descriptor is left
	}
}

// Sweep makes one pass over users each of which belongs to one sandbox alone: it kills
// every process of theirs, and removes what would outlive these in the kernel. It returns
// what is left of each user that has processes left, which may be about to end.
func (i *UserSignaler) Sweep(uids []int64) map[int64][]backend.Survivor {
	for _, uid := range uids {
		i.User(int(uid)).signal(unix.SIGKILL)
	}
	left := make(map[int64][]backend.Survivor)
	for uid, pids := range processesOf(uids...) {
		for _, pid := range pids {
			if statOf(pid).state != 0 && !dead(pid) {
				left[uid] = append(left[uid], backend.Survivor{PID: pid, Name: Name(pid)})
			}
		}
	}
	i.forget(slices.DeleteFunc(slices.Clone(uids), func(uid int64) bool { return left[uid] != nil }))
	return left
}

// forget removes the System V IPC and the keys of users of whom no process is left, as
// each of them: root would need CAP_SYS_ADMIN, and has keyrings of its own. The next
// holder of the number must not find them.
func (i *UserSignaler) forget(uids []int64) {
	left, keys := ipcOf(uids...), keyUsers()
	for _, uid := range uids {
		if len(left[uid]) == 0 && !keys[uid] {
			continue
		}
		c := call{uid: int(uid), done: make(chan struct{})}
		c.as = func() {
			for _, i := range left[uid] {
				i.remove()
			}
			if keys[uid] {
				clearKeys()
			}
		}
		i.calls <- c
		<-c.done
	}
}
