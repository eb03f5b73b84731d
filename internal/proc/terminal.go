//go:build unix

package proc

import (
	"os"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
)

// openTerminal opens a terminal that belongs to the user of cred. Ours is the end
// that a person would sit at, in non-blocking mode; theirs is the command's.
func openTerminal(cred *syscall.Credential, size backend.TerminalSize) (ours, theirs *os.File, err error) {
	var opened *os.File
	asUser(cred, func() { opened, theirs, err = pty.Open() })
	if err != nil {
		return nil, nil, err
	}
	defer opened.Close()
	if err = resize(opened, size); err == nil {
		ours, err = duplicate(opened)
	}
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// duplicate returns another file for the same terminal, which is put into
// non-blocking mode.
func duplicate(terminal *os.File) (*os.File, error) {
	raw, err := terminal.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	raw.Control(func(old uintptr) {
		if err = unix.SetNonblock(int(old), true); err == nil {
			fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 3)
		}
	})
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	return os.NewFile(uintptr(fd), terminal.Name()), nil
}

// resize sets a terminal's size.
func resize(terminal syscall.Conn, size backend.TerminalSize) error {
	raw, err := terminal.SyscallConn()
	if err != nil {
		return err
	}
	size = size.WithDefaults()
	window := &unix.Winsize{Row: size.Rows, Col: size.Cols}
	if cerr := raw.Control(func(fd uintptr) { err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, window) }); cerr != nil {
		return os.ErrProcessDone // its output is over, and the terminal closed
	}
	return err
}

// endOfInput returns what ends a terminal's input when it is typed: the first completes
// a line that was begun, the second says that there is no other. It is empty where
// nothing does: a program that reads keys, not lines (ICANON is off), would read them as
// such, and the terminal may have no eof character.
func endOfInput(terminal syscall.Conn) (end []byte) {
	raw, err := terminal.SyscallConn()
	if err != nil {
		return nil
	}
	raw.Control(func(fd uintptr) {
		t, err := unix.IoctlGetTermios(int(fd), getTermios)
		if err != nil || t.Lflag&unix.ICANON == 0 || t.Cc[unix.VEOF] == noChar {
			return
		}
		end = []byte{t.Cc[unix.VEOF], t.Cc[unix.VEOF]}
	})
	return end
}
