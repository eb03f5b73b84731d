//go:build linux && (amd64 || arm64)

// Package supervise is the agent's mode that is the parent of one command at a
// time. As a child subreaper it becomes the parent of whatever the command leaves
// behind, so that it can find and kill all of it. It stays while anything is left
// and then takes the next command. When its owner's socket ends, it kills
// everything and exits.
//
// It needs no thread after its start, and in a container it has its memory from then on: a
// command that has used up both can still be killed.
package supervise

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/modes/harden"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/cgroup"
	"github.com/sandbox-go/sandbox/internal/proc"
)

// The descriptors that a supervisor is started with, besides /dev/null as stdin and
// stdout. Its stderr is Socket too, until it is ready: why it cannot be, if only
// because the Go runtime finds no thread, is said there in place of a hello.
const (
	Socket = 3 // to its owner
	Locks  = 4 // see proc.NewImpersonator
)

// Main serves the owner at the other end of Socket until it is gone. It must be
// called by the main goroutine, which it keeps on the process's first thread: the
// rights of that thread are what commands are started with. Contained says that commands
// may use up the memory that the process has.
func Main(contained bool) error {
	runtime.LockOSThread()
	oom, err := openOOMScore() // the hardened process's /proc is root's alone
	if err != nil {
		return err
	}
	if err := harden.Process(); err != nil {
		return err
	}
	if err := harden.Commands(); err != nil {
		return err
	}
	s := &supervisor{conn: harden.Conn(Socket), contained: contained, oom: oom, as: proc.NewUserSignaler(Locks)}
	s.children = proc.NewChildren()
	s.children.Reaped = s.reaped
	harden.Threads(0)
	if err := harden.Silence(); err != nil {
		return err
	}
	if err := wire.Greet(s.conn); err != nil {
		return err
	}
	if contained {
		go harden.Memory(reserve) // it takes longer than a command to start, and less than one to use up a limit
	}
	err = s.serve()
	s.children.Kill(s.user)
	return err
}

// reserve is how much memory a supervisor has ahead of need, in bytes.
const reserve = 1 << 20

type supervisor struct {
	conn      harden.Conn
	contained bool // in a container
	as        *proc.UserSignaler
	oom       *oomScore
	children  *proc.Children

	user *proc.User // whose the command is, if it is nobody else's too
	main int        // the command itself while it has not been reaped; guarded by children
	left bool       // something of it is left, or has not been told not to be; guarded by children

	terminal bool // the command has one

	entrance cgroup.Entrance // to the group of the last command

	mu     sync.Mutex // guards conn's writing, and what is to be written
	out    []byte
	rights []int // go with out
}

// serve answers requests, one after the other.
func (s *supervisor) serve() error {
	r := wire.NewReader(s.conn)
	for {
		m, err := r.Next()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *wire.Start:
			err = s.start(m)
		case *wire.Signal:
			s.signal(unix.Signal(m.Signal))
		case *wire.Kill:
			retired := false
			err = s.answer(func() []backend.Survivor {
				left := s.kill()
				retired = len(left) == 0 && s.retire()
				return left
			})
			if retired {
				return err
			}
		case *wire.Sweep:
			err = s.answer(func() []backend.Survivor { return s.sweep(m.UIDs) })
		}
		if err != nil {
			return err
		}
	}
}

// start starts the command and hands its pipes to the owner.
func (s *supervisor) start(m *wire.Start) error {
	cmd := proc.Command{
		Shell: m.Shell, Argv: m.Argv, Dir: m.Dir, Env: m.Env,
		Group: m.Group, Entrance: &s.entrance, Terminal: m.Terminal != nil,
	}
	s.terminal = cmd.Terminal
	for _, dir := range m.Open {
		if err := unix.Chmod(dir, unix.S_ISVTX|0o777); err != nil {
			return s.refuse(&os.PathError{Op: "chmod", Path: dir, Err: err})
		}
	}
	s.user = nil
	if m.UID >= 0 {
		cmd.Credential = &syscall.Credential{Uid: uint32(m.UID), Gid: uint32(m.GID)}
		if m.Own && m.UID > 0 {
			s.user = s.as.User(int(m.UID))
		}
	}
	// Without it, the service's own user reaches the service's keys anyway, and has a small
	// quota; a container has keys of its own, and gVisor's quota counts keyrings for ever.
	if err := harden.SessionKeyring(); err != nil && cmd.Credential != nil && !s.contained {
		return s.refuse(err)
	}
	pipes, err := proc.NewPipes(cmd.Credential, m.HasInput, m.Terminal)
	if err != nil {
		return s.refuse(err)
	}
	defer pipes.Close()
	err = s.children.Start(func() error {
		pid, err := s.oom.start(&cmd, pipes)
		if err != nil {
			return err
		}
		s.main, s.left = pid, true
		s.queue(&wire.Started{PID: pid}, pipes.Ours()...)
		if !m.HasInput && m.Terminal == nil { // it does not wait for its owner
			s.awaitEnd(pid)
		}
		return nil
	})
	if err != nil {
		return s.refuse(err)
	}
	return s.flush()
}

// coalesceDelay is how long a command may take to be told about once, and not when it has
// started and again when it has ended: each time the owner has to wake up, and
// what it does then is in the command's way.
const coalesceDelay = 2 * time.Millisecond

// awaitEnd waits until the command itself has ended or its owner is gone, but not for
// long.
func (s *supervisor) awaitEnd(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // a kernel before 5.3
	}
	defer unix.Close(fd)
	unix.Poll([]unix.PollFd{
		{Fd: int32(fd), Events: unix.POLLIN},
		{Fd: int32(s.conn), Events: unix.POLLIN},
	}, int(coalesceDelay.Milliseconds()))
}

func (s *supervisor) refuse(err error) error {
	refused, ok := err.(*backend.StartError)
	if !ok {
		refused = proc.Lacking(err)
	}
	return s.send(&wire.Refused{Err: *refused})
}

// answer tells what survives a kill. While that goes on it tells that it does.
func (s *supervisor) answer(kill func() []backend.Survivor) error {
	stop := wire.SayWorking(func(m wire.Message) { s.send(m) })
	left := kill()
	stop()
	return s.send(&wire.Killed{Survivors: left})
}

// sweep makes one pass over users, and queues what it leaves of each.
func (s *supervisor) sweep(uids []int64) []backend.Survivor {
	for uid, left := range s.as.Sweep(uids) {
		s.queue(&wire.Swept{UID: uid, Survivors: left})
	}
	return nil
}

// groupKillWait is how long what was signalled may take to end before it is looked for.
const groupKillWait = 10 * time.Millisecond

// kill ends the command's whole tree, and returns what survives. The process group
// first: that takes no look through /proc, and so no memory, which bombs may have
// used up.
func (s *supervisor) kill() []backend.Survivor {
	s.signal(unix.SIGKILL)
	s.children.WaitNone(groupKillWait)
	return s.children.Kill(s.user)
}

// retire takes leave where what is left of the command has been killed, and cannot be
// reaped while somebody traces it: the agent inherits that, and the next command gets
// another supervisor. It reports whether the process is to end.
func (s *supervisor) retire() (retired bool) {
	s.children.Hold(func() {
		if !s.left {
			return
		}
		retired, s.left = true, false
		unix.Shutdown(int(s.conn), unix.SHUT_RD) // so that no other command is taken
		if s.main > 0 {
			s.main = 0
			s.queue(&wire.Exit{Exit: backend.Exit{Signal: backend.SIGKILL}})
		}
		s.queue(&wire.Empty{})
		s.children.Reaped = nil
	})
	return retired
}

// signal signals the command's process group, as long as the command has not
// been reaped: afterwards the group's number may be another's.
func (s *supervisor) signal(sig unix.Signal) {
	s.children.Hold(func() {
		if s.main > 0 {
			unix.Kill(-s.main, sig)
		}
	})
}

// reaped tells the owner when the command itself has ended, and when nothing is
// left, if possible at once.
func (s *supervisor) reaped(pid int, status unix.WaitStatus, usage *unix.Rusage, none bool) {
	if pid == s.main {
		s.main = 0
		if s.terminal {
			s.children.HangUp(pid)
		}
		s.queue(&wire.Exit{Exit: proc.ExitOf(status, usage)})
	}
	if none {
		s.left = false
		s.queue(&wire.Empty{})
	}
	s.flush()
}

func (s *supervisor) send(m wire.Message) error {
	if err := s.queue(m); err != nil {
		return err
	}
	return s.flush()
}

// queue has m sent with what comes next.
func (s *supervisor) queue(m wire.Message, fds ...int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, err := wire.Append(s.out, m)
	s.out, s.rights = out, append(s.rights, fds...)
	return err
}

// flush sends what is queued. When that fails, reading fails from then on too, so
// that nobody waits for what was not told.
func (s *supervisor) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.out) == 0 {
		return nil
	}
	err := s.conn.Send(s.out, s.rights...)
	if err != nil {
		unix.Shutdown(int(s.conn), unix.SHUT_RDWR)
	}
	s.out, s.rights = s.out[:0], s.rights[:0]
	return err
}

// An oomScore is the process's own place in the order in which the kernel ends
// processes when memory is short.
type oomScore struct {
	file         *os.File
	own, command []byte
}

// commandScore makes commands go before the agent and before the service.
const commandScore = 500

// openOOMScore tries what start will do, so that a command never keeps the agent's
// own score unsaid.
func openOOMScore() (*oomScore, error) {
	f, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: mount /proc, and leave it writable", err)
	}
	own := make([]byte, 16)
	n, err := unix.Pread(int(f.Fd()), own, 0)
	if err != nil {
		return nil, os.NewSyscallError("read oom_score_adj", err)
	}
	o := &oomScore{f, own[:n], []byte(strconv.Itoa(commandScore))}
	if score, err := strconv.Atoi(strings.TrimSpace(string(o.own))); err == nil && score >= commandScore {
		o.command = o.own // going below what it was started with takes a privilege
	}
	if err := o.set(o.command); err != nil {
		return nil, err
	}
	return o, o.set(o.own)
}

func (o *oomScore) set(score []byte) error {
	_, err := unix.Pwrite(int(o.file.Fd()), score, 0)
	return os.NewSyscallError("write oom_score_adj", err)
}

// start starts cmd with the commands' score. A child inherits it, and going back
// to the score before takes no privilege.
func (o *oomScore) start(cmd *proc.Command, pipes *proc.Pipes) (int, error) {
	if err := o.set(o.command); err != nil {
		return 0, err
	}
	defer o.set(o.own)
	return cmd.Start(pipes.Theirs())
}
