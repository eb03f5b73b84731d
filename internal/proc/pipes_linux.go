package proc

import (
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
)

// Pipes are the raw ends of a command's three streams, on the side of the process
// that starts it.
type Pipes struct {
	theirs, ours []int
}

// NewPipes makes pipes, or a terminal of that size if it is not nil. They belong to
// the user of cred, who may thus open them again through /proc. Our ends are in
// non-blocking mode, the command's are not. Without input, stdin is /dev/null. The
// error is a *backend.StartError.
func NewPipes(cred *syscall.Credential, input bool, size *backend.TerminalSize) (*Pipes, error) {
	p := &Pipes{}
	var err error
	if size != nil {
		err = p.openTerminal(cred, *size)
	} else {
		asUser(cred, func() { err = p.open(input) })
	}
	for _, fd := range p.ours {
		if err == nil {
			err = unix.SetNonblock(fd, true)
		}
	}
	if err != nil {
		p.Close()
		return nil, Lacking(err)
	}
	return p, nil
}

func (p *Pipes) open(input bool) error {
	if input {
		if err := p.pipe(&p.theirs, &p.ours); err != nil {
			return err
		}
	} else {
		null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		p.theirs = append(p.theirs, null)
	}
	for range 2 {
		if err := p.pipe(&p.ours, &p.theirs); err != nil {
			return err
		}
	}
	return nil
}

// pipe appends a new pipe's ends.
func (p *Pipes) pipe(read, write *[]int) error {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	*read, *write = append(*read, fds[0]), append(*write, fds[1])
	return nil
}

func (p *Pipes) openTerminal(cred *syscall.Credential, size backend.TerminalSize) error {
	ours, theirs, err := openTerminal(cred, size)
	if err != nil {
		return err
	}
	defer closeAll([]*os.File{ours, theirs})
	for _, end := range []struct {
		file *os.File
		to   *[]int
	}{{ours, &p.ours}, {theirs, &p.theirs}} {
		fd, err := unix.FcntlInt(end.file.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return err
		}
		*end.to = append(*end.to, fd)
	}
	p.theirs = append(p.theirs, p.theirs[0], p.theirs[0])
	return nil
}

// Theirs returns the command's ends.
func (p *Pipes) Theirs() []uintptr {
	fds := make([]uintptr, len(p.theirs))
	for i, fd := range p.theirs {
		fds[i] = uintptr(fd)
	}
	return fds
}

// Ours returns the write end of stdin if there is one, then the read ends of
// stdout and stderr; or our one end of a terminal.
func (p *Pipes) Ours() []int { return p.ours }

// Close closes both ends of all pipes.
func (p *Pipes) Close() {
	all := slices.Concat(p.theirs, p.ours)
	slices.Sort(all)
	for _, fd := range slices.Compact(all) {
		unix.Close(fd)
	}
}
