package relay

import (
	"cmp"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// pipes are those of all relays: they are closed when none runs.
var pipes pipePool

type pipePool struct {
	mu     sync.Mutex // guards all below
	relays int
	open   int // idle ones too
	idle   []pipe
}

// Of Linux, where package syscall lacks them.
const (
	setPipeSize = 1031  // F_SETPIPE_SZ
	flags       = 1 | 2 // SPLICE_F_MOVE, SPLICE_F_NONBLOCK
)

type pipe struct{ r, w int }

func (p pipe) close() {
	syscall.Close(p.r)
	syscall.Close(p.w)
}

// enter says that a relay runs, until it calls leave.
func (pp *pipePool) enter() (leave func()) {
	pp.mu.Lock()
	defer pp.mu.Unlock()
	pp.relays++
	return func() {
		pp.mu.Lock()
		defer pp.mu.Unlock()
		if pp.relays--; pp.relays > 0 {
			return
		}
		for _, p := range pp.idle {
			p.close()
		}
		pp.open -= len(pp.idle)
		pp.idle = nil
	}
}

// take returns an empty pipe, if there is one to be had.
func (pp *pipePool) take() (pipe, bool) {
	pp.mu.Lock()
	defer pp.mu.Unlock()
	if last := len(pp.idle) - 1; last >= 0 {
		p := pp.idle[last]
		pp.idle = pp.idle[:last]
		return p, true
	}
	if pp.open == maxPipes {
		return pipe{}, false
	}
	var fds [2]int
	if syscall.Pipe2(fds[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK) != nil {
		return pipe{}, false
	}
	syscall.Syscall(syscall.SYS_FCNTL, uintptr(fds[1]), setPipeSize, pipeSize)
	pp.open++
	return pipe{fds[0], fds[1]}, true
}

// give takes a pipe back.
func (pp *pipePool) give(p pipe, empty bool) {
	pp.mu.Lock()
	defer pp.mu.Unlock()
	if !empty {
		pp.open--
		p.close()
		return
	}
	pp.idle = append(pp.idle, p)
}

// errNoPipe: bytes are to be copied for a while.
var errNoPipe = errors.New("no pipe is to be had")

// splice moves what src brings next to dst within the kernel, and returns how much that was,
// or io.EOF. It calls read when that has left src. After a wait it returns 0 and no error, and
// has moved nothing.
func splice(dst, src syscall.RawConn, read func(int) error) (n int, err error) {
	var p pipe
	have, waited := false, false
	waitErr := src.Read(func(fd uintptr) bool {
		if waited {
			err = nil
			return true
		}
		if p, have = pipes.take(); !have {
			err = errNoPipe
			return true
		}
		n, err = retry(func() (int64, error) {
			return syscall.Splice(int(fd), nil, p.w, nil, pipeSize, flags)
		})
		if err == syscall.EAGAIN { // who waits has none
			pipes.give(p, true)
			have, waited = false, true
			return false
		}
		return true
	})
	if waitErr != nil || !have {
		return 0, cmp.Or(waitErr, err)
	}
	left := max(n, 0)
	defer func() { pipes.give(p, left == 0) }()
	switch {
	case err == syscall.EINVAL: // such a socket has none of it
		return 0, errNoPipe
	case err != nil:
		return 0, os.NewSyscallError("splice", err)
	case n == 0:
		return 0, io.EOF
	}
	if err := read(n); err != nil {
		return n, err
	}
	for left > 0 {
		m := 0
		waitErr = dst.Write(func(fd uintptr) bool {
			m, err = retry(func() (int64, error) {
				return syscall.Splice(p.r, nil, int(fd), nil, left, flags)
			})
			return err != syscall.EAGAIN
		})
		if waitErr != nil {
			return n, waitErr
		}
		if err != nil {
			return n, os.NewSyscallError("splice", err)
		}
		left -= m
	}
	return n, nil
}

// retry calls f until no signal interrupts it.
func retry(f func() (int64, error)) (int, error) {
	for {
		n, err := f()
		if err != syscall.EINTR {
			return int(n), err
		}
	}
}
