//go:build linux && (amd64 || arm64)

// Package namespace is the agent's mode that is the first process of a sandbox's own
// namespaces. It makes the sandbox's root, gives up all privileges that it does not need
// afterwards, and serves the service that has started it. When it ends, the kernel ends
// everything in the sandbox.
package namespace

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/agent/modes/harden"
	"github.com/sandbox-go/sandbox/internal/agent/modes/serve"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/host"
)

// Main serves the service at the other end of serve.Socket until that is gone. The main
// goroutine must call it. Unmapped says that the process has no user yet: one that gets it
// after its start has no privileges before it executes a program again.
func Main(unmapped bool) error {
	runtime.LockOSThread()
	conn := harden.Conn(serve.Socket)
	if unmapped {
		return again(conn, "namespace")
	}
	// To what commands send, the first process of a pid namespace is deaf, unless it
	// handles it, as the runtime does. Its children's dispositions are their own.
	for s := syscall.Signal(1); s < 32; s++ {
		if s != unix.SIGCHLD && s != unix.SIGURG {
			signal.Ignore(s)
		}
	}
	if err := wire.Greet(conn); err != nil {
		return err
	}
	m, err := wire.NewReader(conn).Next()
	if err != nil {
		return err
	}
	enter, ok := m.(*wire.Enter)
	if !ok {
		return errors.New("unexpected message")
	}
	ready := func(err error) error { return wire.Write(conn, entered(err)) }
	err = prepare(enter)
	if err == nil {
		err = restrict(enter)
	}
	if err != nil {
		return errors.Join(ready(err), err)
	}
	return serve.Enclosed(enter.Limited, ready)
}

// again executes the program again, with that command line, when the service has given the
// process its user.
func again(conn harden.Conn, args ...string) error {
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return err
	}
	return os.NewSyscallError("execve", unix.Exec("/proc/self/exe", append([]string{"sandbox-agent"}, args...), nil))
}

// Remove removes a tree. Unmapped is as in Main.
func Remove(dir string, unmapped bool) error {
	if unmapped {
		return again(serve.Socket, "remove", dir, "mapped")
	}
	return host.Remove(dir)
}

// A failure is a call that has failed.
type failure struct {
	what string // the call, and what it was about
	err  error
}

func (f *failure) Error() string { return f.what + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// failed returns a failure, or nil if err is nil.
func failed(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &failure{fmt.Sprintf(format, args...), err}
}

// entered makes a message of what has failed, if anything.
func entered(err error) *wire.Entered {
	if err == nil {
		return &wire.Entered{}
	}
	m := &wire.Entered{Failed: err.Error()}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		m.Errno = int(errno)
	}
	var f *failure
	if errors.As(err, &f) {
		m.Failed = f.what
	}
	return m
}

// prepare makes the sandbox, with all the privileges there are in a new user namespace.
func prepare(e *wire.Enter) error {
	umask := unix.Umask(0)
	defer unix.Umask(umask)
	if err := makeRoot(e); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return failed(err, "sethostname")
	}
	return raiseLoopback()
}

// raiseLoopback has the network namespace's one interface be up.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return failed(err, "socket")
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err == nil {
		lo.SetUint16(unix.IFF_UP)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
	}
	return failed(err, "ioctl(SIOCSIFFLAGS, lo)")
}

// restrict gives up, in every thread and for good, what only prepare needs.
func restrict(e *wire.Enter) error {
	none := unix.Rlimit{}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &none); err != nil {
		return failed(err, "setrlimit(RLIMIT_CORE)")
	}
	if e.Processes >= 0 {
		limit := unix.Rlimit{Cur: uint64(e.Processes), Max: uint64(e.Processes)}
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &limit); err != nil {
			return failed(err, "setrlimit(RLIMIT_NPROC, %d)", e.Processes)
		}
	}
	keep := []uintptr{unix.CAP_SETPCAP} // with which supervisors empty commands' bounding set
	if e.UID >= 0 {
		keep = append(keep, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL)
	}
	if err := harden.Retain(keep...); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return failed(err, "prctl(PR_SET_NO_NEW_PRIVS)")
	}
	if e.Landlock {
		if err := harden.Writable(openTrees(e), []string{"/dev", "/proc"}); err != nil {
			return err
		}
	}
	if e.UID < 0 { // commands have the agent's number
		if err := harden.OwnLimits(); err != nil {
			return err
		}
	}
	return filter(e.Filter)
}

// openTrees returns the trees that commands may change. This thread alone is held to it, which
// starts all supervisors: so what they start is in one domain, and may signal each other.
func openTrees(e *wire.Enter) []string {
	if e.Overlay {
		return []string{"/"} // and all mounts below it, of which some are read-only
	}
	trees := append([]string{"/tmp", "/dev/shm"}, e.WorkAt...)
	for _, m := range e.Mounts {
		if !m.ReadOnly {
			trees = append(trees, m.Target)
		}
	}
	return trees
}

// filter has the kernel refuse to every thread, and to all that they start, the system
// calls that a seccomp program refuses, and new privileges, which the calling thread has
// renounced.
func filter(program []byte) error {
	const size = int(unsafe.Sizeof(unix.SockFilter{}))
	if len(program) < size {
		return failed(unix.EINVAL, "seccomp")
	}
	prog := unix.SockFprog{Len: uint16(len(program) / size), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	// TSYNC gives the other threads no_new_privs too.
	other, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	switch {
	case errno != 0:
		return failed(errno, "seccomp(SECCOMP_SET_MODE_FILTER)")
	case other != 0:
		return failed(unix.ESRCH, "seccomp(SECCOMP_FILTER_FLAG_TSYNC)")
	}
	return nil
}
