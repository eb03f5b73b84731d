//go:build unix

package proc

import (
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/sandbox-go/sandbox/backend"
)

// Streams are the three pipes of a command, from the service's end. The methods
// may be called concurrently.
type Streams struct {
	stdout, stderr *Pump
	closeStdin     func()
	over           chan struct{}
}

// NewStreams starts to move bytes between the pipes and spec. It owns the files,
// which are in non-blocking mode; stdin is nil when spec.Stdin is. On an error
// they are closed.
func NewStreams(stdin, stdout, stderr *os.File, spec *backend.Spec) (*Streams, error) {
	s := &Streams{over: make(chan struct{}), closeStdin: func() {}}
	if stdin != nil {
		s.closeStdin = sync.OnceFunc(func() { stdin.Close() })
	}
	var running atomic.Int32
	running.Store(2)
	done := func() {
		if running.Add(-1) == 0 {
			close(s.over)
		}
	}
	var err error
	if s.stdout, err = NewPump(stdout, spec.Stdout, done); err != nil {
		stdout.Close()
		stderr.Close()
		s.closeStdin()
		return nil, err
	}
	if s.stderr, err = NewPump(stderr, spec.Stderr, done); err != nil {
		s.stdout.Finish()
		stderr.Close()
		s.closeStdin()
		return nil, err
	}
	if stdin != nil {
		go s.feed(stdin, spec.Stdin)
	}
	return s, nil
}

// feed copies the input. A command that no longer reads, and a Read that fails,
// are no errors: the input ends there. Nobody waits for a Read in progress.
func (s *Streams) feed(stdin *os.File, r io.Reader) {
	defer s.closeStdin()
	io.Copy(onlyWriter{stdin}, r)
}

// onlyWriter hides the file's ReadFrom, which would splice from files of the
// caller in ways that a caller's reader cannot interrupt.
type onlyWriter struct{ io.Writer }

// Flush waits until every byte that is in the output pipes now is with its sink.
func (s *Streams) Flush() {
	s.stdout.Flush()
	s.stderr.Flush()
}

// Over is closed when both outputs have ended, or been finished, and every byte
// is with its sink.
func (s *Streams) Over() <-chan struct{} { return s.over }

// Finish ends both outputs after what is in the pipes now, and the input. It
// waits for the sinks.
func (s *Streams) Finish() {
	s.closeStdin()
	s.stdout.Finish()
	s.stderr.Finish()
	<-s.over
}

// Discard has all further output go nowhere, and ends the input.
func (s *Streams) Discard() {
	s.closeStdin()
	s.stdout.Discard()
	s.stderr.Discard()
}
