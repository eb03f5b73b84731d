//go:build linux && (amd64 || arm64)

package agentclient

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/agent"
	"github.com/sandbox-go/sandbox/internal/agent/modes/serve"
	"github.com/sandbox-go/sandbox/internal/cgroup"
)

// launch starts the agent with one end of a socket, in a session and a control group of its
// own, with an empty environment and no other descriptor of the service but more, of which the
// first gets the number [firstMore].
func launch(program *Program, argv []string, sys syscall.SysProcAttr, group cgroup.Place, more ...*os.File) (*net.UnixConn, *os.Process, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "agent"), os.NewFile(uintptr(pair[1]), "agent")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	defer null.Close()
	files := []*os.File{null, null, theirs, nil}
	files[serve.Socket] = theirs
	files = append(files, more...)
	sys.Setsid = true
	var process *os.Process
	err = group.Start(&sys, func() (err error) {
		process, err = program.start(argv, &os.ProcAttr{Dir: "/", Env: []string{}, Files: files, Sys: &sys})
		return err
	})
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), process, nil
}

// firstMore comes after the standard streams and serve.Socket.
const firstMore = 4

// A Program is the agent's, to be started several times. Its methods may be called
// concurrently.
type Program struct {
	dir string

	mu      sync.Mutex // guards what follows, which is set by the first start
	content []byte
	memory  *os.File // sealed; nil where it cannot be had
	err     error    // why it cannot
}

// NewProgram returns a Program. Dir is where its file is put for a moment, where it may
// not be started from memory.
func NewProgram(dir string) *Program { return &Program{dir: dir} }

// Close gives back the memory. What was started goes on.
func (p *Program) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.content = nil
	p.memory.Close()
	p.memory = nil
}

// load returns the program, and the memory that it is in, or why it is in none.
func (p *Program) load() (content []byte, memory *os.File, memoryErr, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.content == nil {
		if p.content, _, err = agent.Native(); err != nil {
			return nil, nil, nil, err
		}
		p.memory, p.err = inMemory(p.content)
	}
	return p.content, p.memory, p.err, nil
}

// start starts the program from memory, or, where that is not allowed, from a
// file that is there for as long as it takes.
func (p *Program) start(argv []string, attr *os.ProcAttr) (*os.Process, error) {
	program, memory, memoryErr, err := p.load()
	if err != nil {
		return nil, err
	}
	process, err := (*os.Process)(nil), memoryErr
	if err == nil {
		process, err = startMemory(memory, argv, attr)
	}
	if err == nil {
		return process, nil
	}
	process, fileErr := startFile(p.dir, program, argv, attr)
	if fileErr != nil {
		if errors.Is(fileErr, fs.ErrPermission) || errors.Is(fileErr, unix.EROFS) || errors.Is(fileErr, unix.ENOSPC) {
			fileErr = fmt.Errorf("%w: choose an Options.Dir with room, where programs may be written and executed", fileErr)
		}
		return nil, errors.Join(err, fileErr)
	}
	return process, nil
}

// beyond returns a descriptor above those that a child uses on its way to the
// program: it puts its files, and a pipe of its own, above the highest of them
// first, whatever is there.
func beyond(files []*os.File) int {
	highest := len(files)
	for _, f := range files {
		highest = max(highest, int(f.Fd()))
	}
	const pipe = 1
	return highest + 1 + len(files) + pipe
}

// inMemory returns a file in memory that has that content, for good.
func inMemory(content []byte) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("sandbox-agent", flags|unix.MFD_EXEC)
	if err == unix.EINVAL { // a kernel before 6.3 allows it without being asked
		fd, err = unix.MemfdCreate("sandbox-agent", flags)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "sandbox-agent")
	_, err = f.Write(content)
	if err == nil {
		const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		f.Close()
		return nil, os.NewSyscallError("memfd", err)
	}
	return f, nil
}

func startMemory(memory *os.File, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	fd, err := unix.FcntlInt(memory.Fd(), unix.F_DUPFD_CLOEXEC, beyond(attr.Files))
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	defer unix.Close(fd)
	return os.StartProcess("/proc/self/fd/"+strconv.Itoa(fd), argv, attr)
}

func startFile(dir string, program []byte, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	f, err := os.CreateTemp(dir, "sandbox-agent-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(program)
	if err == nil {
		err = f.Chmod(0o555) // users of sandboxes run it too, to reach files
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	return os.StartProcess(f.Name(), argv, attr)
}
