//go:build unix

package proc

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/pump"
)

// Streams are the three streams of a command, from the service's end: pipes, or a
// terminal. The methods may be called concurrently.
type Streams struct {
	pumps      []*pump.Pump
	terminal   *os.File // nil for pipes
	closeStdin func()
	over       chan struct{}
}

// NewStreams starts to move bytes between the files and spec. It owns the files,
// which are in non-blocking mode, as Pipes.Ours returns them. On an error they are
// closed.
func NewStreams(files []*os.File, spec *backend.Spec) (*Streams, error) {
	s := &Streams{over: make(chan struct{}), closeStdin: func() {}}
	var stdin *os.File
	if spec.Terminal != nil {
		s.terminal = files[0]
		var err error
		if stdin, err = duplicate(s.terminal); err != nil {
			closeAll(files)
			return nil, err
		}
	} else if spec.Stdin != nil {
		stdin, files = files[0], files[1:]
	}
	if stdin != nil {
		s.closeStdin = sync.OnceFunc(func() { stdin.Close() })
	}
	done := s.doneAfter(len(files))
	for i, sink := range []io.Writer{spec.Stdout, spec.Stderr}[:len(files)] {
		p, err := pump.New(files[i], sink, done)
		if err != nil {
			for _, p := range s.pumps {
				p.Finish()
			}
			closeAll(files[i:])
			s.closeStdin()
			return nil, err
		}
		s.pumps = append(s.pumps, p)
	}
	if spec.Stdin != nil {
		go s.feed(stdin, spec.Stdin)
	}
	return s, nil
}

// Drain returns the streams of a command of which nothing is left: what is in its
// pipes is all there will be. It owns the descriptors, which are in the order of
// Pipes.Ours.
func Drain(fds []int, spec *backend.Spec) *Streams {
	s := &Streams{over: make(chan struct{}), closeStdin: func() {}}
	if spec.Stdin != nil {
		unix.Close(fds[0])
		fds = fds[1:]
	}
	done := s.doneAfter(len(fds))
	for i, sink := range []io.Writer{spec.Stdout, spec.Stderr} {
		s.pumps = append(s.pumps, pump.Drain(fds[i], sink, done))
	}
	return s
}

// HandedOver returns the streams of a command whose pipes are another process's: they are
// over, as far as this one is concerned.
func HandedOver() *Streams {
	over := make(chan struct{})
	close(over)
	return &Streams{over: over, closeStdin: func() {}}
}

// doneAfter returns what closes over when it has been called n times.
func (s *Streams) doneAfter(n int) func() {
	var running atomic.Int32
	running.Store(int32(n))
	return func() {
		if running.Add(-1) == 0 {
			close(s.over)
		}
	}
}

// feed copies the input, and then ends it. A command that no longer reads, and
// a Read that fails, are no errors: the input ends there. Nobody waits for a Read
// in progress. A terminal where no end can be typed is hung up, after what is in it
// now.
func (s *Streams) feed(stdin *os.File, r io.Reader) {
	defer s.closeStdin()
	_, err := io.Copy(onlyWriter{stdin}, r)
	if s.terminal == nil || errors.Is(err, os.ErrClosed) {
		return
	}
	if end := endOfInput(stdin); len(end) > 0 {
		stdin.Write(end)
		return
	}
	for _, p := range s.pumps {
		p.Finish()
	}
}

// Resize changes the size of the terminal.
func (s *Streams) Resize(size backend.TerminalSize) error {
	if s.terminal == nil {
		return errors.ErrUnsupported
	}
	return resize(s.terminal, size)
}

// onlyWriter hides the file's ReadFrom, which would splice from files of the
// caller in ways that a caller's reader cannot interrupt.
type onlyWriter struct{ io.Writer }

// Flush waits until every byte that is in the output pipes now is with its sink.
func (s *Streams) Flush() {
	for _, p := range s.pumps {
		p.Flush()
	}
}

// Over is closed when both outputs have ended, or been finished, and every byte
// is with its sink.
func (s *Streams) Over() <-chan struct{} { return s.over }

// Finish ends both outputs after what is in the pipes now, and the input. It
// waits for the sinks.
func (s *Streams) Finish() {
	s.closeStdin()
	for _, p := range s.pumps {
		p.Finish()
	}
	<-s.over
}

// Discard has all further output go nowhere, and ends the input.
func (s *Streams) Discard() {
	s.closeStdin()
	for _, p := range s.pumps {
		p.Discard()
	}
}
