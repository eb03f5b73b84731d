package proc

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
)

// Pipes are the raw ends of a command's three streams, on the side of the process
// that starts it.
type Pipes struct {
	stdin, stdout, stderr [2]int // read end, write end
}

// NewPipes makes pipes that belong to the user of cred, who may thus open them
// again through /proc. Our ends are in non-blocking mode, the command's are not.
// Without input, stdin is /dev/null. The error is a *backend.StartError.
func NewPipes(cred *syscall.Credential, input bool) (*Pipes, error) {
	none := [2]int{-1, -1}
	p := &Pipes{none, none, none}
	var err error
	asUser(cred, func() { err = p.open(input) })
	if err != nil {
		p.Close()
		errno, _ := err.(syscall.Errno)
		return nil, &backend.StartError{Reason: backend.NoResources, Errno: int(errno), Detail: err.Error()}
	}
	return p, nil
}

func (p *Pipes) open(input bool) (err error) {
	if input {
		err = unix.Pipe2(p.stdin[:], unix.O_CLOEXEC)
	} else {
		p.stdin[0], err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err == nil {
		err = unix.Pipe2(p.stdout[:], unix.O_CLOEXEC)
	}
	if err == nil {
		err = unix.Pipe2(p.stderr[:], unix.O_CLOEXEC)
	}
	for _, fd := range p.Ours() {
		if err == nil {
			err = unix.SetNonblock(fd, true)
		}
	}
	return err
}

// Theirs returns the command's ends.
func (p *Pipes) Theirs() []uintptr {
	return []uintptr{uintptr(p.stdin[0]), uintptr(p.stdout[1]), uintptr(p.stderr[1])}
}

// Ours returns the read ends of stdout and stderr, then the write end of stdin
// if there is one.
func (p *Pipes) Ours() []int {
	if p.stdin[1] < 0 {
		return []int{p.stdout[0], p.stderr[0]}
	}
	return []int{p.stdout[0], p.stderr[0], p.stdin[1]}
}

// Close closes both ends of all pipes.
func (p *Pipes) Close() {
	for _, fd := range []int{p.stdin[0], p.stdin[1], p.stdout[0], p.stdout[1], p.stderr[0], p.stderr[1]} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
