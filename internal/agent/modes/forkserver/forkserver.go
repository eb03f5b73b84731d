//go:build linux && (amd64 || arm64)

// Package forkserver is the agent's mode that starts supervisors for an agent that runs as
// the commands' user. It is in a Landlock domain, in which all that it starts is too: who
// is in there cannot signal the agent, which is not. A supervisor is the agent's own child
// all the same (CLONE_PARENT), so a command that kills the fork server ends nothing else.
package forkserver

import (
	"errors"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/agent/modes/harden"
	"github.com/sandbox-go/sandbox/internal/agent/modes/supervise"
	"github.com/sandbox-go/sandbox/internal/agent/shared/pool"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/proc"
)

// Main starts a supervisor for each Spawn that comes, with its socket, through
// supervise.Socket, until the agent is gone. Its descriptors are those of a supervisor. It
// must be called by the main goroutine, which it keeps on the process's first thread: only
// that one is in the domain, and starts something.
func Main(contained bool) error {
	runtime.LockOSThread()
	if err := harden.Process(); err != nil {
		return err
	}
	if err := harden.Scoped(); err != nil {
		return err
	}
	if err := harden.Silence(); err != nil {
		return err
	}
	f := os.NewFile(supervise.Socket, "agent")
	c, err := net.FileConn(f)
	if err != nil {
		return err
	}
	f.Close()
	conn := c.(*net.UnixConn)
	if err := wire.Greet(conn); err != nil {
		return err
	}
	rights := pool.NewRights(conn)
	for r := wire.NewReader(rights); ; {
		if _, err := r.Next(); err != nil {
			return err
		}
		sockets := rights.Take(1)
		if sockets == nil {
			return errors.New("no descriptor came")
		}
		pid, err := supervise.Start("supervise", supervise.Files{Null: 0, Socket: sockets[0], Locks: supervise.Locks}, contained, unix.CLONE_PARENT)
		unix.Close(sockets[0])
		var answer wire.Message = &wire.Started{PID: pid}
		if err != nil {
			answer = &wire.Refused{Err: *proc.Lacking(err)}
		}
		if err := wire.Write(conn, answer); err != nil {
			return err
		}
	}
}
