package backendtest

import (
	"errors"
	"io"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox"
)

// readerCases are about the live output.
func readerCases() []Case {
	return []Case{{
		Name: "a-pausing-reader-gets-all",
		Rule: "A single reader never gets a gap until a kill, however long it pauses.",
		run:  aPausingReaderGetsAll,
	}, {
		Name: "a-reader-holds-the-command",
		Rule: "The command is held while every open reader is a full buffer behind, and goes on when one reads.",
		run:  aReaderHoldsTheCommand,
	}, {
		Name: "a-held-command-can-be-killed",
		Rule: "After a kill neither the pipes' end nor any reader is waited for.",
		run:  aHeldCommandCanBeKilled,
	}, {
		Name: "a-kill-empties-the-pipes",
		Rule: "Bytes that are in the pipes when the command is killed are kept, though no reader has made room for them.",
		run:  aKillEmptiesThePipes,
	}, {
		Name: "the-fastest-reader-sets-the-pace",
		Rule: "A reader that falls a full buffer behind another loses its oldest unread bytes as a counted gap; the other gets everything.",
		run:  theFastestReaderSetsThePace,
	}, {
		Name: "a-late-reader-starts-where-it-likes",
		Rule: "A reader starts at any stored offset, while the command runs and later; a negative offset, or one past the end, is an error.",
		run:  aLateReaderStartsWhereItLikes,
	}, {
		Name: "a-replay-tells-what-was-cut",
		Rule: "An offset whose bytes were cut answers with a gap and goes on with what is stored next.",
		run:  aReplayTellsWhatWasCut,
	}, {
		Name: "live-order-is-kept",
		Rule: "Live, order between the streams is the order in which the output came.",
		run:  liveOrderIsKept,
	}}
}

func aPausingReaderGetsAll(s *subject) {
	const n = 2_500_000
	e, stream := s.follow(s.command(lines(n)))
	defer stream.Close()
	want := numbered(n)
	var rest []byte
	for chunks := 0; ; chunks++ {
		if chunks%100 == 0 && chunks < 500 {
			time.Sleep(50 * time.Millisecond)
		}
		c, err := stream.Next(s.ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || c.Gap != 0 {
			s.Fatalf("next: got error %v, a gap of %d; want none", err, c.Gap)
		}
		for data := c.Data; len(data) > 0; {
			if len(rest) == 0 {
				rest = want.next()
			}
			k := min(len(data), len(rest))
			if k == 0 || string(data[:k]) != string(rest[:k]) {
				s.Fatalf("from byte %d on: got %q, want %q", c.Offset, excerpt(string(data)), excerpt(string(rest)))
			}
			data, rest = data[k:], rest[k:]
		}
	}
	if len(rest)+len(want.next()) > 0 {
		s.Errorf("the end is missing")
	}
	s.ended(s.wait(e), sandbox.Completed, 0)
}

func aReaderHoldsTheCommand(s *subject) {
	e, stream := s.follow(s.command(zeros(10<<20), appendTo("done")))
	defer stream.Close()
	s.held(e)
	if n := s.size("done"); n != 0 || e.Execution().Status != sandbox.Running {
		s.Errorf("10 MiB that nobody read did not hold the command, want it running: %s", describe(e.Execution()))
	}
	if total := e.Execution().Stdout.Total; total > 1<<20 {
		s.Errorf("%d bytes came that nobody read, want at most %d", total, 1<<20)
	}
	data, gaps := s.readAll(stream)
	if len(data[0]) != 10<<20 || gaps[0] != 0 || s.size("done") != 1 {
		s.Errorf("the reader got %d bytes with a gap of %d; want %d and none", len(data[0]), gaps[0], 10<<20)
	}
}

func aHeldCommandCanBeKilled(s *subject) {
	e, stream := s.follow(s.command(zeros(10<<20), appendTo("done"), sleep(long)))
	defer stream.Close()
	s.held(e)
	if s.size("done") != 0 {
		s.Errorf("the command is not held")
	}
	begin := time.Now()
	s.ended(s.cancel(e), sandbox.Cancelled, none)
	s.prompt("the kill", time.Since(begin), 0)
	data, gaps := s.readAll(stream)
	if total := e.Execution().Stdout.Total; int64(len(data[0]))+gaps[0] != total {
		s.Errorf("the reader got %d bytes and a gap of %d; want %d in all", len(data[0]), gaps[0], total)
	}
}

func aKillEmptiesThePipes(s *subject) {
	e, stream := s.follow(s.command(zeros(pipeful), appendTo("done"), sleep(long)))
	defer stream.Close()
	s.eventually("the command has written all", func() bool { return s.size("done") == 1 })
	rec := s.cancel(e)
	s.ended(rec, sandbox.Cancelled, none)
	s.printed(rec, strings.Repeat("\x00", pipeful), "")
}

func theFastestReaderSetsThePace(s *subject) {
	const n = 300_000
	cmd := s.command(lines(n))
	cmd.MaxOutput = 1000
	e, fast := s.follow(cmd)
	defer fast.Close()
	slow, err := e.Stream(sandbox.Offsets{})
	if err != nil {
		s.Fatalf("stream: %v", err)
	}
	defer slow.Close()
	all := numbered(n).all()
	data, gaps := s.readAll(fast)
	s.same("the fast reader's output", data[0], all)
	if gaps[0] != 0 {
		s.Errorf("the fast reader has a gap of %d, want none", gaps[0])
	}
	data, gaps = s.readAll(slow)
	if gaps[0] == 0 || int64(len(data[0]))+gaps[0] != int64(len(all)) {
		s.Fatalf("the slow reader got %d bytes and a gap of %d; want a gap, and %d in all", len(data[0]), gaps[0], len(all))
	}
	s.same("the slow reader's output", data[0], all[:1000]+all[1000+gaps[0]:])
}

func aLateReaderStartsWhereItLikes(s *subject) {
	r, w := io.Pipe()
	defer w.Close()
	cmd := s.command(print("0123456789"), printErr("e"), cat())
	cmd.Stdin = r
	e := s.start(cmd)
	s.eventually("output has come", func() bool {
		now := e.Execution()
		return now.Stdout.Total == 10 && now.Stderr.Total == 1
	})
	starts := []sandbox.Offsets{{}, {Stdout: 4, Stderr: 1}, {Stdout: 10}}
	open := func() (streams []sandbox.Stream) {
		for _, from := range starts {
			stream, err := e.Stream(from)
			if err != nil {
				s.Fatalf("stream from %+v: %v", from, err)
			}
			streams = append(streams, stream)
		}
		return streams
	}
	refuse := func(end int64) {
		for _, from := range []sandbox.Offsets{{Stdout: -1}, {Stderr: -1}, {Stdout: end + 1}, {Stderr: 2}} {
			var invalid *sandbox.InvalidError
			if _, err := e.Stream(from); !errors.As(err, &invalid) {
				s.Errorf("from %+v: want an *InvalidError, got %v", from, err)
			}
		}
	}
	streams := open()
	refuse(10)
	io.WriteString(w, "ab")
	w.Close()
	s.completed(s.wait(e), 0, "0123456789ab", "e")
	refuse(12)
	for i, stream := range append(streams, open()...) {
		from := starts[i%len(starts)]
		data, gaps := s.readFrom(stream, from)
		s.same("stdout", data[0], "0123456789ab"[from.Stdout:])
		s.same("stderr", data[1], "e"[from.Stderr:])
		if gaps != [2]int64{} {
			s.Errorf("got gaps of %v, want none", gaps)
		}
		stream.Close()
	}
}

func aReplayTellsWhatWasCut(s *subject) {
	cmd := s.command(print("0123456789"))
	cmd.MaxOutput, cmd.MaxTail = 3, 2
	e := s.start(cmd)
	s.wait(e)
	stream, err := e.Stream(sandbox.Offsets{Stdout: 1})
	if err != nil {
		s.Fatalf("stream: %v", err)
	}
	defer stream.Close()
	text := ""
	for {
		c, err := stream.Next(s.ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			s.Fatalf("next: %v", err)
		}
		for range c.Gap {
			text += "?"
		}
		text += string(c.Data)
	}
	s.same("the replay", text, "12?????89")
}

func liveOrderIsKept(s *subject) {
	pause := sleep(300 * time.Millisecond) // a service that is not run for so long sees both at once
	_, stream := s.follow(s.command(print("a"), pause, printErr("b"), pause, print("c"), pause, printErr("d")))
	defer stream.Close()
	got := ""
	for range 4 {
		c := s.next(stream)
		got += c.Source.String() + ":" + string(c.Data) + " "
	}
	s.same("the order", got, "stdout:a stderr:b stdout:c stderr:d ")
}
