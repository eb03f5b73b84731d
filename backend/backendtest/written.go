package backendtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandbox-go/sandbox"
)

// writtenCases are about input that is written while the command runs.
func writtenCases() []Case {
	return []Case{{
		Name: "input-is-written-while-it-runs",
		Rule: "An input that is kept open gives first what Stdin has, then what is written, each as it is written, and ends when it is closed.",
		run:  inputIsWrittenWhileItRuns,
	}, {
		Name: "an-open-input-holds-nobody",
		Rule: "A command that ends without reading its input is over, though the input is still open; then a write is os.ErrProcessDone.",
		run:  anOpenInputHoldsNobody,
	}, {
		Name: "an-unread-write-ends-with-its-context",
		Rule: "A write that nobody reads waits, until its context ends; the command can still be killed, and that ends a write too.",
		run:  anUnreadWriteEndsWithItsContext,
	}, {
		Name: "long-writes-pass",
		Rule: "Writes of any length arrive whole, in order, and not mixed with others that are made at once.",
		run:  longWritesPass,
	}}
}

func inputIsWrittenWhileItRuns(s *subject) {
	cmd := s.command(readLine(), readLine(), readLine(), countInput())
	cmd.Stdin, cmd.OpenStdin = strings.NewReader("given\n"), true
	e, stream := s.follow(cmd)
	defer stream.Close()
	s.same("the answer", string(s.next(stream).Data), "got:given\n")
	for _, line := range []string{"one", "two"} {
		s.write(e, line+"\n")
		s.same("the answer", string(s.next(stream).Data), "got:"+line+"\n")
	}
	s.write(e, "12345")
	for range 2 {
		if err := e.CloseStdin(s.ctx); err != nil {
			s.Errorf("close of the input: %v", err)
		}
	}
	if _, err := e.WriteStdin(s.ctx, []byte("x")); !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, os.ErrProcessDone) {
		s.Errorf("write after the end: %v", err)
	}
	s.completed(s.wait(e), 0, "got:given\ngot:one\ngot:two\n5\n", "")
}

func anOpenInputHoldsNobody(s *subject) {
	cmd := s.command(print("on"))
	cmd.OpenStdin = true
	e := s.start(cmd)
	s.completed(s.wait(e), 0, "on", "")
	if _, err := e.WriteStdin(s.ctx, []byte("x")); !errors.Is(err, os.ErrProcessDone) {
		s.Errorf("write after the end: %v", err)
	}
}

func anUnreadWriteEndsWithItsContext(s *subject) {
	cmd := s.command(sleep(long))
	cmd.OpenStdin = true
	e := s.start(cmd)
	much := make([]byte, 4<<20)
	ctx, cancel := context.WithTimeout(s.ctx, restTime)
	defer cancel()
	if n, err := e.WriteStdin(ctx, much); n >= len(much) || !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("a write that nobody reads: got %d bytes, %v; want fewer than %d, %v", n, err, len(much), context.DeadlineExceeded)
	}
	kill := time.AfterFunc(restTime, func() { e.Cancel(s.ctx) })
	defer kill.Stop()
	if n, err := e.WriteStdin(s.ctx, much); n >= len(much) || !errors.Is(err, os.ErrProcessDone) {
		s.Errorf("a write to what is killed: got %d bytes, %v; want fewer than %d, %v", n, err, len(much), os.ErrProcessDone)
	}
	s.ended(s.wait(e), sandbox.Cancelled, none)
}

func longWritesPass(s *subject) {
	cmd := s.command(cat())
	cmd.OpenStdin = true
	e, stream := s.follow(cmd)
	defer stream.Close()
	const size, writers = 500_000, 6
	var all errgroup.Group
	for i := range writers {
		all.Go(func() error {
			_, err := e.WriteStdin(s.ctx, bytes.Repeat([]byte{byte('a' + i)}, size))
			return err
		})
	}
	go func() {
		if err := all.Wait(); err != nil {
			s.Errorf("write: %v", err)
		}
		e.CloseStdin(s.ctx)
	}()
	data, _ := s.readAll(stream)
	for i := range writers {
		if run := strings.Repeat(string(rune('a'+i)), size); !strings.Contains(data[0], run) {
			s.Errorf("the write of %c is torn", 'a'+i)
		}
	}
	if len(data[0]) != size*writers {
		s.Errorf("got %d bytes back, want %d", len(data[0]), size*writers)
	}
	s.ended(s.wait(e), sandbox.Completed, 0)
}

// write writes to a command's input.
func (s *subject) write(e sandbox.Exec, text string) {
	s.Helper()
	if n, err := e.WriteStdin(s.ctx, []byte(text)); n != len(text) || err != nil {
		s.Fatalf("write of %q: got %d bytes, %v; want all %d", excerpt(text), n, err, len(text))
	}
}
