//go:build unix

package proc

import (
	"io"
	"os"
	"sync"

	"github.com/sandbox-go/sandbox/backend"
)

// Streams are the three pipes of a command, from the service's end. The methods
// may be called concurrently.
type Streams struct {
	stdout, stderr *Pump
	stdin          *os.File // nil when the input is empty
	closeStdin     func()
}

// NewStreams starts to move bytes between the pipes and spec. It owns the files,
// which are in non-blocking mode; stdin is nil when spec.Stdin is. On an error
// they are closed.
func NewStreams(stdin, stdout, stderr *os.File, spec *backend.Spec) (*Streams, error) {
	s := &Streams{stdin: stdin}
	s.closeStdin = sync.OnceFunc(func() {
		if stdin != nil {
			stdin.Close()
		}
	})
	var err error
	if s.stdout, err = NewPump(stdout, spec.Stdout); err != nil {
		stdout.Close()
		stderr.Close()
		s.closeStdin()
		return nil, err
	}
	if s.stderr, err = NewPump(stderr, spec.Stderr); err != nil {
		stderr.Close()
		s.closeStdin()
		s.stdout.Finish()
		<-s.stdout.Over()
		return nil, err
	}
	if stdin != nil {
		go s.feed(spec.Stdin)
	}
	return s, nil
}

// feed copies the input. A command that no longer reads, and a Read that fails,
// are no errors: the input ends there. Nobody waits for a Read in progress.
func (s *Streams) feed(r io.Reader) {
	defer s.closeStdin()
	io.Copy(onlyWriter{s.stdin}, r)
}

// onlyWriter hides the file's ReadFrom, which would splice from files of the
// caller in ways that a caller's reader cannot interrupt.
type onlyWriter struct{ io.Writer }

// Flush waits until every byte that is in the output pipes now is with its sink.
func (s *Streams) Flush() {
	s.stdout.Flush()
	s.stderr.Flush()
}

// WaitOver waits until both output pipes have ended, or been finished.
func (s *Streams) WaitOver() {
	<-s.stdout.Over()
	<-s.stderr.Over()
}

// Finish ends both outputs after what is in the pipes now, and the input. It
// waits for the sinks.
func (s *Streams) Finish() {
	s.closeStdin()
	s.stdout.Finish()
	s.stderr.Finish()
	s.WaitOver()
}

// Discard has all further output go nowhere, and ends the input.
func (s *Streams) Discard() {
	s.closeStdin()
	s.stdout.Discard()
	s.stderr.Discard()
}
