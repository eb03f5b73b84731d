package backendtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

const (
	// beatTime is the pause of a process that makes a file longer, and restTime how
	// long it is watched to see that it has stopped.
	beatTime = 30 * time.Millisecond
	restTime = 250 * time.Millisecond

	// soon is far longer than what is to happen at once takes on a slow machine,
	// and far shorter than long, for which commands run that are to be ended.
	soon = 15 * time.Second
	long = 90 * time.Second
)

// subject is what a case works with: a sandbox of its own.
type subject struct {
	testing.TB
	sandbox.Sandbox
	instance backend.Instance // the sandbox's
	backend  backend.Backend
	h        Harness
	ctx      context.Context
}

// newSandbox makes a sandbox of the backend under test.
func (s *subject) newSandbox() sandbox.Sandbox {
	s.Helper()
	return s.newSandboxIn(s.backend, s.h.Config)
}

func (s *subject) newSandboxIn(b backend.Backend, cfg *backend.Config) sandbox.Sandbox {
	s.Helper()
	opts := &sandbox.Options{Egress: egressOptions()}
	if cfg != nil {
		opts.Config = *cfg
	}
	sb, err := sandbox.New(s.ctx, b, opts)
	if err != nil {
		s.Fatalf("create: %v", err)
	}
	return sb
}

// in returns the subject with another sandbox.
func (s *subject) in(sb sandbox.Sandbox) *subject {
	other := *s
	other.Sandbox, other.instance = sb, nil
	return &other
}

// closing calls a Close, within its own time.
func (s *subject) closing(what string, close func(context.Context) error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := close(ctx); err != nil {
		s.Errorf("close of %s: %v", what, err)
	}
}

// command makes a command of steps.
func (s *subject) command(steps ...step) sandbox.Command {
	if s.h.Command != nil {
		return s.h.Command(Program{steps})
	}
	return sandbox.Command{Shell: Program{steps}.Shell()}
}

// run runs steps to their end.
func (s *subject) run(steps ...step) *sandbox.Execution {
	s.Helper()
	return s.runCommand(s.command(steps...))
}

func (s *subject) runCommand(cmd sandbox.Command) *sandbox.Execution {
	s.Helper()
	rec, err := s.Run(s.ctx, cmd)
	if err != nil {
		s.Fatalf("run: %v", err)
	}
	return rec
}

// shell runs a text to its end.
func (s *subject) shell(text string) *sandbox.Execution {
	s.Helper()
	return s.runCommand(sandbox.Command{Shell: text})
}

func (s *subject) start(cmd sandbox.Command) sandbox.Exec {
	s.Helper()
	e, err := s.Start(s.ctx, cmd)
	if err != nil {
		s.Fatalf("start: %v", err)
	}
	return e
}

func (s *subject) follow(cmd sandbox.Command) (sandbox.Exec, sandbox.Stream) {
	s.Helper()
	e, stream, err := s.Follow(s.ctx, cmd)
	if err != nil {
		s.Fatalf("follow: %v", err)
	}
	return e, stream
}

// wait waits until an execution is over.
func (s *subject) wait(e sandbox.Exec) *sandbox.Execution {
	s.Helper()
	rec, err := e.Wait(s.ctx)
	if err != nil {
		s.Fatalf("wait: %v", err)
	}
	return rec
}

// cancel cancels an execution and returns its record.
func (s *subject) cancel(e sandbox.Exec) *sandbox.Execution {
	s.Helper()
	if err := e.Cancel(s.ctx); err != nil {
		s.Errorf("cancel: %v", err)
	}
	return s.wait(e)
}

// next returns the next piece of output.
func (s *subject) next(stream sandbox.Stream) sandbox.Chunk {
	s.Helper()
	c, err := stream.Next(s.ctx)
	if err != nil {
		s.Fatalf("next: %v", err)
	}
	return c
}

// readAll reads a stream from the beginning to its end, and returns both outputs
// and how much was missing in each.
func (s *subject) readAll(stream sandbox.Stream) (data [2]string, gaps [2]int64) {
	s.Helper()
	return s.readFrom(stream, sandbox.Offsets{})
}

// readFrom is readAll of a stream that was opened at from.
func (s *subject) readFrom(stream sandbox.Stream, from sandbox.Offsets) (data [2]string, gaps [2]int64) {
	s.Helper()
	begin := [2]int64{from.Stdout, from.Stderr}
	var b [2]strings.Builder
	for {
		c, err := stream.Next(s.ctx)
		if errors.Is(err, io.EOF) {
			return [2]string{b[0].String(), b[1].String()}, gaps
		}
		if err != nil {
			s.Fatalf("next: %v", err)
		}
		gaps[c.Source] += c.Gap
		if at := begin[c.Source] + int64(b[c.Source].Len()) + gaps[c.Source]; c.Offset != at {
			s.Fatalf("a chunk of %v has offset %d, want %d", c.Source, c.Offset, at)
		}
		b[c.Source].Write(c.Data)
	}
}

// size returns how long a file of the sandbox is.
func (s *subject) size(file string) int {
	s.Helper()
	rec := s.run(size(file))
	n, err := strconv.Atoi(strings.TrimSpace(rec.Stdout.String()))
	if err != nil {
		s.Fatalf("size of %s: %v: %s", file, err, describe(rec))
	}
	return n
}

// beats waits until every file has begun to grow since the call.
func (s *subject) beats(files ...string) {
	s.Helper()
	for _, file := range files {
		begin, before := time.Now(), s.size(file)
		for s.size(file) == before {
			if time.Since(begin) > soon {
				s.Fatalf("what writes %s does not run", file)
			}
			time.Sleep(beatTime)
		}
	}
}

// held waits until an execution is held by its reader: until output has come, and no
// more does.
func (s *subject) held(e sandbox.Exec) {
	s.Helper()
	s.eventually("output comes, and is held", func() bool {
		before := e.Execution().Stdout.Total
		time.Sleep(restTime)
		return before > 0 && e.Execution().Stdout.Total == before
	})
}

// rests checks that no file grows any more.
func (s *subject) rests(files ...string) {
	s.Helper()
	for _, file := range s.growing(files) {
		s.Errorf("a survivor goes on writing %s", file)
	}
}

// comesToRest waits until no file grows any more: a signal arrives when it does.
func (s *subject) comesToRest(files ...string) {
	s.Helper()
	s.eventually("nothing is written any more", func() bool { return len(s.growing(files)) == 0 })
}

// growing returns which files grow. It watches for as long as another command takes to
// do what a survivor would, so that one which the machine is slow to run is seen too.
func (s *subject) growing(files []string) []string {
	s.Helper()
	before := make([]int, len(files))
	for i, file := range files {
		before[i] = s.size(file)
	}
	s.completed(s.run(slices.Repeat([]step{sleep(beatTime)}, int(restTime/beatTime))...), 0, "", "")
	var growing []string
	for i, file := range files {
		if after := s.size(file); after != before[i] {
			growing = append(growing, fmt.Sprintf("%s (%d bytes, then %d)", file, before[i], after))
		}
	}
	return growing
}

// eventually waits until ok holds.
func (s *subject) eventually(what string, ok func() bool) {
	s.Helper()
	for begin := time.Now(); !ok(); time.Sleep(beatTime) {
		if time.Since(begin) > soon {
			s.Fatalf("timed out waiting until %s", what)
		}
	}
}
