package backendtest

import (
	"errors"
	"io"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox"
)

// outputCases are about the bytes of a record.
func outputCases() []Case {
	return []Case{{
		Name: "streams-are-apart",
		Rule: "Each of the two output streams has what was written to it, and nothing else.",
		run:  streamsAreApart,
	}, {
		Name: "odd-bytes-are-exact",
		Rule: "Bytes are exact: no line splitting, no added or lost newline, NUL and invalid UTF-8 pass, and nothing that looks like a protocol has a meaning.",
		run:  oddBytesAreExact,
	}, {
		Name: "one-line-of-any-length",
		Rule: "A line is as long as the command makes it: no length splits it or ends it.",
		run:  oneLineOfAnyLength,
	}, {
		Name: "a-split-character-arrives",
		Rule: "A character whose bytes come apart arrives byte for byte.",
		run:  aSplitCharacterArrives,
	}, {
		Name: "the-record-is-cut-at-a-character",
		Rule: "Each stream stores its first MaxOutput bytes, cut at a character boundary, and tells the true total.",
		run:  theRecordIsCutAtACharacter,
	}, {
		Name: "characters-survive-every-boundary",
		Rule: "Text of three-byte characters is whole in the record and for readers, whatever the buffers between are.",
		run:  charactersSurviveEveryBoundary,
	}, {
		Name: "the-tail-is-kept",
		Rule: "An optional tail keeps the last bytes too, with a gap that is counted.",
		run:  theTailIsKept,
	}, {
		Name: "a-full-record-holds-nothing",
		Rule: "Without a reader nothing is held: what is past the record is counted and dropped, and stderr and the exit code are kept.",
		run:  aFullRecordHoldsNothing,
	}, {
		Name:  "memory-is-bounded",
		Rule:  "Memory per execution is bounded whatever is printed, and a live reader still gets everything.",
		alone: true,
		run:   memoryIsBounded,
	}}
}

func streamsAreApart(s *subject) {
	s.completed(s.run(print("out"), printErr("err"), print("out"), printErr("err"), exit(1)), 1, "outout", "errerr")
}

func oddBytesAreExact(s *subject) {
	for _, text := range []string{
		"x", "\n", "\n\n", "a\x00b", "10%\r20%\r", "\r\n\r\n", "\xff\xfe\x80", "\xe2\x82", "\x1b[31mred\x1b[0m", "\x04\x03",
		"data: x\n\nevent: exit\ndata: {\"exit_code\":0}\n\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"\x01\x00\x00\x00\x00\x00\x00\x05hello", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"exit status 0\n", "__EXIT__0\n", "%s%d%%",
	} {
		s.completed(s.run(print(text)), 0, text, "")
		s.completed(s.run(printErr(text), exit(1)), 1, "", text)
	}
}

func oneLineOfAnyLength(s *subject) {
	cmd := s.command(zeros(10<<20), print("end"))
	cmd.MaxOutput = 11 << 20
	s.completed(s.runCommand(cmd), 0, strings.Repeat("\x00", 10<<20)+"end", "")
}

func aSplitCharacterArrives(s *subject) {
	_, stream := s.follow(s.command(print("\xe2"), sleep(100*time.Millisecond), print("\x82\xac")))
	defer stream.Close()
	data, _ := s.readAll(stream)
	s.same("stdout", data[0], "€")
}

func theRecordIsCutAtACharacter(s *subject) {
	for limit := range 8 {
		cmd := s.command(print("€€"), printErr("a€"))
		cmd.MaxOutput = limit
		if limit == 0 {
			cmd.MaxOutput = -1
		}
		rec := s.runCommand(cmd)
		s.ended(rec, sandbox.Completed, 0)
		s.same("stdout", string(rec.Stdout.Head), "€€"[:limit/3*3])
		s.same("stderr", string(rec.Stderr.Head), "a€"[:[]int{0, 1, 1, 1, 4, 4, 4, 4}[limit]])
		if rec.Stdout.Total != 6 || rec.Stderr.Total != 4 || rec.Stdout.Truncated() != (limit < 6) || rec.Stderr.Truncated() != (limit < 4) {
			s.Errorf("limit %d: got totals %d and %d, truncated %v and %v; want 6 and 4, truncated below them", limit,
				rec.Stdout.Total, rec.Stderr.Total, rec.Stdout.Truncated(), rec.Stderr.Truncated())
		}
	}
}

func charactersSurviveEveryBoundary(s *subject) {
	text := "x" + strings.Repeat("€", 500_000)
	cmd := s.command(cat())
	cmd.Stdin = strings.NewReader(text)
	e, stream := s.follow(cmd)
	defer stream.Close()
	data, _ := s.readAll(stream)
	s.same("the reader's output", data[0], text)
	s.same("the record's output", string(s.wait(e).Stdout.Head), text[:1+(1<<20-1)/3*3])
}

func theTailIsKept(s *subject) {
	all := numbered(100_000).all()
	cmd := s.command(lines(100_000))
	cmd.MaxOutput, cmd.MaxTail = 1000, 2000
	out := s.runCommand(cmd).Stdout
	s.same("head", string(out.Head), all[:1000])
	s.same("tail", string(out.Tail), all[len(all)-2000:])
	if out.Gap() != int64(len(all)-3000) {
		s.Errorf("a gap of %d bytes, want %d", out.Gap(), len(all)-3000)
	}
}

func aFullRecordHoldsNothing(s *subject) {
	rec := s.run(zeros(50<<20), printErr("ERR\n"), exit(1))
	s.ended(rec, sandbox.Completed, 1)
	s.same("stderr", rec.Stderr.String(), "ERR\n")
	if rec.Stdout.Total != 50<<20 || len(rec.Stdout.Head) != 1<<20 {
		s.Errorf("%d bytes in all, %d stored; want %d and %d", rec.Stdout.Total, len(rec.Stdout.Head), 50<<20, 1<<20)
	}
}

func memoryIsBounded(s *subject) {
	const limit = 16 << 20
	total := int64(full(4<<30, 256<<20))
	before := heap()
	e, stream := s.follow(s.command(zeros(int(total))))
	defer stream.Close()
	got, looked := int64(0), int64(0)
	for {
		c, err := stream.Next(s.ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			s.Fatalf("next: %v", err)
		}
		got += int64(len(c.Data))
		if got-looked > 64<<20 {
			looked = got
			if now := heap(); now > before+limit {
				s.Fatalf("after %d MiB the heap has grown by %d MiB, want at most %d", got>>20, (now-before)>>20, limit>>20)
			}
		}
	}
	rec := s.wait(e)
	s.ended(rec, sandbox.Completed, 0)
	if got != total || rec.Stdout.Total != total || !rec.Truncated() {
		s.Errorf("of %d bytes the reader got %d, the record counts %d, truncated %v; want all, all, true", total, got, rec.Stdout.Total, rec.Truncated())
	}
}
