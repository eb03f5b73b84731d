//go:build linux && (amd64 || arm64)

package serve

import (
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/mux"
	"github.com/sandbox-go/sandbox/internal/agent/shared/pool"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/cgroup"
)

// idle says how many supervisors there are in a container that have nothing to do. Each
// takes processes and memory of its limits. What the engine's limit has beyond that of the
// commands is enough for maxKept (backend/docker/agent.go); more of them are kept where
// so many have just run at once, and only for as long as the next ones may take to come.
func idle(limits *wire.Limits) pool.Idle {
	kept := maxKept
	if limits.Memory > 0 {
		kept = min(max(int(limits.Memory/memoryShare/supervisorMemory), minKept), maxKept)
	}
	most := maxBrief
	if kept < maxKept {
		most = kept
	}
	return pool.Idle{Ready: 2, Kept: kept, Most: most, Quiet: 30 * time.Second, Brief: time.Second}
}

const (
	minKept  = 4
	maxKept  = 16
	maxBrief = 64

	memoryShare      = 16      // all that are kept take this part of the memory limit
	supervisorMemory = 3 << 20 // of one that has nothing to do, in bytes
)

// Container serves executions on stdin and stdout until they end. Before, it makes
// home the user's own. The main goroutine must call it.
func Container(home, user string, flags ...wire.ServeFlag) error {
	n, err := begin(true)
	if err != nil {
		return err
	}
	defer n.close()
	provide(true)
	if mustScope() {
		n.scope()
	}
	if slices.Contains(flags, wire.Alone) {
		if err := endOthers(); err != nil {
			return err
		}
	}
	if err := prepare(home, user, slices.Contains(flags, wire.Fresh)); err != nil {
		return err
	}
	if who := (wire.Start{User: user}); resolve(&who) == nil && who.Own {
		n.as.Keep(int(who.UID))
	}
	conn, err := newStdio()
	if err != nil {
		return err
	}
	if err := wire.Greet(conn); err != nil {
		return err
	}
	if slices.Contains(flags, wire.TellEnvironment) {
		if err := wire.Write(conn, &wire.Environment{Env: os.Environ()}); err != nil {
			return err
		}
	}
	seen := limits()
	seen.Protected = n.scoped || os.Geteuid() == 0
	if err := wire.Write(conn, seen); err != nil {
		return err
	}
	chosen, handing, err := offer(conn)
	if err != nil {
		return err
	}
	session, err := mux.Server(chosen)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(1) // so that what one goroutine has for another wakes no thread
	c := &container{handing: handing, spawner: n, pool: pool.New(&shared{spawner: n}, idle(seen)), inputs: newInputs(), oom: newOOMCounter()}
	defer c.pool.Close()
	ended := make(chan error)
	go func() { ended <- c.accept(session) }() // not on the first thread, which the main goroutine keeps to itself
	return <-ended
}

type container struct {
	handing *sender // what is handed over; nil when the connection is not direct
	spawner *spawner
	pool    *pool.Pool
	inputs  *inputs
	oom     *cgroup.OOM
}

// accept serves the streams of a session until it ends.
func (c *container) accept(session *yamux.Session) error {
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			return err
		}
		go c.serve(session, stream)
	}
}

// serve serves a stream, which is for executions, the input of one, a connection to a
// port, or a port to listen on.
func (c *container) serve(session *yamux.Session, stream *yamux.Stream) {
	r := wire.NewReader(stream)
	m, _ := r.Next()
	switch m := m.(type) {
	case *wire.Start:
		c.execute(stream, r, m)
		stream.Close()
	case *wire.Input:
		c.inputs.put(m.Number, stream)
	case *wire.Dial:
		c.dial(stream, m)
	case *wire.Listen:
		c.listen(session, stream, m)
	default:
		stream.Close()
	}
}

// shared is a spawner whose supervisors serve the process itself.
type shared struct {
	*spawner
	spawned atomic.Int64
}

// Spawn implements [pool.Spawner].
func (s *shared) Spawn() (*net.UnixConn, int, error) {
	number := int(s.spawned.Add(1))
	fd, err := s.spawn(number)
	if err != nil {
		return nil, 0, err
	}
	conn, err := unixConn(fd)
	return conn, number, err
}

// unixConn makes a connection of a socket, which is no longer the caller's.
func unixConn(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// KillOrphans implements [pool.Spawner].
func (s *shared) KillOrphans(number int, uid int64) ([]backend.Survivor, error) {
	return s.killOrphans(number, uid), nil
}

// A stdio is stdin and stdout as one connection.
type stdio struct {
	io.Reader
	io.WriteCloser
}

// largePipe is the size that stdout should have, in bytes.
const largePipe = 1 << 20

// newStdio takes stdin and stdout, and leaves /dev/null in their place. They are
// put into non-blocking mode, so that waiting for them takes no thread.
func newStdio() (*stdio, error) {
	var files [2]*os.File
	for i := range files {
		fd, err := unix.FcntlInt(uintptr(i), unix.F_DUPFD_CLOEXEC, 3)
		if err == nil {
			err = unix.SetNonblock(fd, true)
		}
		if err != nil {
			return nil, os.NewSyscallError("stdio", err)
		}
		files[i] = os.NewFile(uintptr(fd), "stdio")
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	for i := 0; i < len(files) && err == nil; i++ {
		err = unix.Dup3(null, i, 0)
	}
	if err != nil {
		return nil, os.NewSyscallError("stdio", err)
	}
	unix.FcntlInt(files[1].Fd(), unix.F_SETPIPE_SZ, largePipe)
	return &stdio{files[0], files[1]}, nil
}
