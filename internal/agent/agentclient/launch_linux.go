//go:build linux && (amd64 || arm64)

package agentclient

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/internal/agent"
	"github.com/sandbox-go/sandbox/internal/agent/modes/serve"
)

// launch starts the agent with one end of a socket, in a session of its own, with
// an empty environment and no other descriptor of the service.
func launch(dir string) (*net.UnixConn, *os.Process, error) {
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
	process, err := start(dir, &os.ProcAttr{
		Dir:   "/",
		Env:   []string{},
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), process, nil
}

// start starts the program from memory, or, where that is not allowed, from a
// file in dir that is there for as long as it takes.
func start(dir string, attr *os.ProcAttr) (*os.Process, error) {
	program, _, err := agent.Native()
	if err != nil {
		return nil, err
	}
	argv := []string{"sandbox-agent", "local"}
	process, err := startMemory(program, argv, attr)
	if err == nil {
		return process, nil
	}
	process, fileErr := startFile(dir, program, argv, attr)
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

func startMemory(program []byte, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	low, err := unix.MemfdCreate("sandbox-agent", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if err == unix.EINVAL { // a kernel before 6.3 allows it without being asked
		low, err = unix.MemfdCreate("sandbox-agent", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	fd, err := unix.FcntlInt(uintptr(low), unix.F_DUPFD_CLOEXEC, beyond(attr.Files))
	unix.Close(low)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	f := os.NewFile(uintptr(fd), "sandbox-agent")
	defer f.Close()
	if _, err := f.Write(program); err != nil {
		return nil, err
	}
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
