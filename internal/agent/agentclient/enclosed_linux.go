//go:build linux && (amd64 || arm64)

package agentclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/pool"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/cgroup"
)

// idleEnclosed says how many supervisors a sandbox has that have nothing to do.
var idleEnclosed = pool.Idle{Ready: 1, Kept: 4, Most: 16, Quiet: 30 * time.Second, Brief: time.Second}

// An Enclosure is how an agent becomes the first process of a sandbox's own namespaces.
type Enclosure struct {
	Program *Program

	// Sys has the namespaces that it starts in, and who it is there.
	Sys syscall.SysProcAttr

	// Map gives the process of that number its user, where Sys does not. It may be nil.
	Map func(pid int) error

	// Group is the control group that it starts in.
	Group cgroup.Place

	// Tree is a detached mount of the sandbox's root, or nil. It stays the caller's.
	Tree *os.File

	// Enter is what the sandbox is made of, but for its Tree.
	Enter *wire.Enter
}

// An EnterError says why an agent could not make its sandbox.
type EnterError struct {
	Call  string        // that failed, and on what
	Errno syscall.Errno // 0 where the kernel has given no number
}

// Error returns the call and the reason.
func (e *EnterError) Error() string {
	if e.Errno == 0 {
		return e.Call
	}
	return e.Call + ": " + e.Errno.Error()
}

// Unwrap returns the number.
func (e *EnterError) Unwrap() error { return e.Errno }

// NewEnclosed starts an agent that is the first process of namespaces of its own. When it
// ends, the kernel ends all that it has started, and Close has it end so. The context covers
// the starting. The error is an *EnterError where the agent could not make its sandbox.
func NewEnclosed(ctx context.Context, e *Enclosure) (*Local, error) {
	argv := []string{"sandbox-agent", "namespace"}
	if e.Map != nil {
		argv = append(argv, "unmapped")
	}
	var more []*os.File
	if e.Tree != nil {
		more, e.Enter.Tree = []*os.File{e.Tree}, firstMore
	}
	conn, process, err := launch(e.Program, argv, e.Sys, e.Group, more...)
	if err != nil {
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { process.Kill() })
	l := newLocal(conn, process)
	l.enclosed = true
	err = l.enclose(e)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		process.Kill()
		process.Wait()
		return nil, err
	}
	l.begin(idleEnclosed)
	return l, nil
}

// UserNamespace makes a user namespace that nobody is in.
func UserNamespace(program *Program, ids []syscall.SysProcIDMap) (*os.File, error) {
	sys := syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids}
	// Until it is told that it has its user, the agent waits.
	conn, process, err := launch(program, []string{"sandbox-agent", "namespace", "unmapped"}, sys, cgroup.Place{})
	if err != nil {
		return nil, err
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", process.Pid))
	conn.Close()
	process.Kill()
	process.Wait()
	return ns, err
}

// Remove removes the tree dir, with the privileges that an agent has where e has it start.
func Remove(e *Enclosure, dir string) error {
	conn, process, err := launch(e.Program, []string{"sandbox-agent", "remove", dir}, e.Sys, cgroup.Place{})
	if err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	defer conn.Close()
	if err := e.mapUser(conn, process.Pid); err != nil {
		process.Kill()
		process.Wait()
		return err
	}
	said, _ := io.ReadAll(conn)
	state, err := process.Wait()
	if err == nil && !state.Success() {
		err = fmt.Errorf("remove %s: %s: %s", dir, state, bytes.TrimSpace(said))
	}
	return err
}

// mapUser gives the process its user, for which it waits.
func (e *Enclosure) mapUser(conn *net.UnixConn, pid int) error {
	if e.Map == nil {
		return nil
	}
	if err := e.Map(pid); err != nil {
		return err
	}
	_, err := conn.Write([]byte{0})
	return err
}

// enclose has the agent make its sandbox, and nothing else.
func (l *Local) enclose(e *Enclosure) error {
	if err := e.mapUser(l.conn, l.process.Pid); err != nil {
		return err
	}
	return l.enter(e.Enter)
}

// enter has the agent make its sandbox.
func (l *Local) enter(e *wire.Enter) error {
	if err := pool.Greet(l.conn); err != nil {
		return err
	}
	if err := wire.Write(l.conn, e); err != nil {
		return err
	}
	m, err := l.reader.Next()
	if err != nil {
		return err
	}
	entered, ok := m.(*wire.Entered)
	switch {
	case !ok:
		return errors.New("unexpected message")
	case entered.Failed != "":
		return &EnterError{Call: entered.Failed, Errno: syscall.Errno(entered.Errno)}
	}
	return nil
}

// PID returns the number of the agent's process.
func (l *Local) PID() int { return l.process.Pid }

// Dial connects to a TCP port of an enclosed agent's namespace, by the rules of
// [backend.Dialer].
func (l *Local) Dial(ctx context.Context, port int) (net.Conn, error) {
	answered := make(chan reply, 1)
	go func() { answered <- l.request(func(id int) wire.Message { return &wire.Dial{ID: id, Port: port} }) }()
	select {
	case r := <-answered:
		if r.err != nil {
			return nil, r.err
		}
		return r.dialed, nil
	case <-ctx.Done():
		go func() {
			if r := <-answered; r.err == nil {
				r.dialed.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

func (l *Local) dialed(m *wire.Dialed) reply {
	switch {
	case m.Refused:
		return reply{err: backend.ErrRefused}
	case m.Why != "":
		return reply{err: errors.New(m.Why)}
	}
	f, err := l.socket()
	if err != nil {
		return reply{err: err}
	}
	defer f.Close()
	conn, err := socketOf[*net.TCPConn](f, net.FileConn)
	if err != nil {
		return reply{err: err}
	}
	return reply{dialed: l.sockets.add(conn)}
}

// Listen listens on a port of the loopback address of an enclosed agent's namespace, by
// the rules of [backend.Listener], but that the listener does not end with the agent.
func (l *Local) Listen() (net.Listener, error) {
	r := l.request(func(id int) wire.Message { return &wire.Listen{ID: id} })
	return r.listener, r.err
}

func (l *Local) listening(m *wire.Listening) reply {
	if m.Why != "" {
		return reply{err: errors.New(m.Why)}
	}
	f, err := l.socket()
	if err != nil {
		return reply{err: err}
	}
	defer f.Close()
	listener, err := net.FileListener(f)
	return reply{listener: listener, err: err}
}
