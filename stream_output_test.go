package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
)

const (
	window = 256 << 10 // how far a reader may fall behind, as Stream documents
	head   = 1 << 20   // what a record stores by default, as Command.MaxOutput documents
)

// numbered returns n bytes that differ from place to place.
func numbered(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%07d\n", i)
	}
	return b.Bytes()[:n]
}

// bubble runs f in a synctest bubble with a sandbox whose only command, "cmd", is h.
func bubble(t *testing.T, h fake.Handler, f func(t *testing.T, sb sandbox.Sandbox)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := fake.New(nil)
		b.Handle("cmd", h)
		sb, stop := newSandbox(t, b, nil)
		defer stop()
		f(t, sb)
	})
}

func start(t *testing.T, sb sandbox.Sandbox, cmd sandbox.Command) sandbox.Exec {
	t.Helper()
	cmd.Shell = "cmd"
	ex, err := sb.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	return ex
}

func wait(t *testing.T, ex sandbox.Exec) *sandbox.Execution {
	t.Helper()
	rec, err := ex.Wait(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// replay reads ex from an offset on, and returns what it read as one text per chunk.
func replay(t *testing.T, ex sandbox.Exec, from sandbox.Offsets) []string {
	t.Helper()
	s, err := ex.Stream(from)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	chunks, err := readAll(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return texts(chunks)
}

// texts returns each chunk as a text.
func texts(chunks []sandbox.Chunk) (all []string) {
	for _, c := range chunks {
		if c.Gap > 0 {
			all = append(all, fmt.Sprintf("%v %d gap %d", c.Source, c.Offset, c.Gap))
			continue
		}
		all = append(all, fmt.Sprintf("%v %d %q", c.Source, c.Offset, c.Data))
	}
	return all
}

func TestRecordStoresHeadAndTail(t *testing.T) {
	for _, tt := range []struct {
		name       string
		out        string
		max, tail  int
		head, last string
		gap        int64
		text       string
	}{
		{"fits", "12345", 5, 0, "12345", "", 0, "12345"},
		{"one-too-many", "123456", 5, 0, "12345", "", 1, "12345[… 1 bytes cut …]"},
		{"stores-none", "12345", -1, 0, "", "", 5, "[… 5 bytes cut …]"},
		{"cut-before-a-character", "12€45", 4, 0, "12", "", 5, "12[… 5 bytes cut …]"},
		{"cut-after-a-character", "12€45", 5, 0, "12€", "", 2, "12€[… 2 bytes cut …]"},
		{"ends-at-the-cap-within-a-character", "12\xe2\x82", 4, 0, "12\xe2\x82", "", 0, "12\xe2\x82"},
		{"not-utf8-is-not-cut-further", "12\x80\x80\x80", 4, 0, "12\x80\x80", "", 1, "12\x80\x80[… 1 bytes cut …]"},
		{"tail", "0123456789", 3, 4, "012", "6789", 3, "012[… 3 bytes cut …]6789"},
		{"tail-touches-head", "0123456789", 6, 6, "012345", "6789", 0, "0123456789"},
		{"tail-begins-after-a-character", "0123€89", 2, 4, "01", "89", 5, "01[… 5 bytes cut …]89"},
		{"tail-alone", "0123456789", -1, 4, "", "6789", 6, "[… 6 bytes cut …]6789"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, fake.Result(0, tt.out, ""), func(t *testing.T, sb sandbox.Sandbox) {
				rec := wait(t, start(t, sb, sandbox.Command{MaxOutput: tt.max, MaxTail: tt.tail}))
				got := []any{string(rec.Stdout.Head), string(rec.Stdout.Tail), rec.Stdout.Gap(), rec.Stdout.Total, rec.Stdout.String(), rec.Truncated()}
				want := []any{tt.head, tt.last, tt.gap, int64(len(tt.out)), tt.text, tt.gap > 0}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("head, tail, gap, total, text, truncated (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestReplay(t *testing.T) {
	handler := func(p *fake.Process) int {
		for _, w := range []struct {
			to   io.Writer
			text string
		}{{p.Stdout, "ab"}, {p.Stdout, "cd"}, {p.Stderr, "EF"}, {p.Stdout, "gh"}, {p.Stdout, "0123456789"}} {
			io.WriteString(w.to, w.text)
			p.Sleep(time.Second)
		}
		return 0
	}
	bubble(t, handler, func(t *testing.T, sb sandbox.Sandbox) {
		ex := start(t, sb, sandbox.Command{MaxOutput: 6, MaxTail: 4})
		wait(t, ex)
		for _, tt := range []struct {
			name string
			from sandbox.Offsets
			want []string
		}{
			{"all", sandbox.Offsets{}, []string{`stdout 0 "abcd"`, `stderr 0 "EF"`, `stdout 4 "gh"`, `stdout 12 gap 6`, `stdout 12 "6789"`}},
			{"from-the-middle", sandbox.Offsets{Stdout: 5, Stderr: 1}, []string{`stderr 1 "F"`, `stdout 5 "h"`, `stdout 12 gap 6`, `stdout 12 "6789"`}},
			{"from-within-the-gap", sandbox.Offsets{Stdout: 9, Stderr: 2}, []string{`stdout 12 gap 3`, `stdout 12 "6789"`}},
			{"from-within-the-tail", sandbox.Offsets{Stdout: 14, Stderr: 2}, []string{`stdout 14 "89"`}},
			{"from-the-end", sandbox.Offsets{Stdout: 16, Stderr: 2}, nil},
		} {
			if diff := cmp.Diff(tt.want, replay(t, ex, tt.from)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.name, diff)
			}
			if got, _ := news(t, ex, tt.from); cmp.Diff(tt.want, got) != "" {
				t.Errorf("%s: Since gave %q, want %q", tt.name, got, tt.want)
			}
		}
		for _, from := range []sandbox.Offsets{{Stdout: -1}, {Stderr: -1}, {Stdout: 17}, {Stderr: 3}} {
			var invalid *sandbox.InvalidError
			if _, err := ex.Stream(from); !errors.As(err, &invalid) {
				t.Errorf("Stream(%+v) gave the error %v, want an *InvalidError", from, err)
			}
		}
	})
}

func TestLiveOrderIsExact(t *testing.T) {
	handler := func(p *fake.Process) int {
		for i := range 20000 {
			fmt.Fprintf(p.Stdout, "%d,", 2*i)
			fmt.Fprintf(p.Stderr, "%d,", 2*i+1)
		}
		return 0
	}
	bubble(t, handler, func(t *testing.T, sb sandbox.Sandbox) {
		_, s, err := sb.Follow(t.Context(), sandbox.Command{Shell: "cmd"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		chunks, err := readAll(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		var got, want strings.Builder
		for _, c := range chunks {
			got.Write(c.Data)
		}
		for i := range 40000 {
			fmt.Fprintf(&want, "%d,", i)
		}
		if got.String() != want.String() {
			t.Errorf("the two streams were not delivered in the order in which they were written")
		}
	})
}

func TestReaderHoldsTheCommand(t *testing.T) {
	data := numbered(8 * window)
	var written time.Time
	handler := func(p *fake.Process) int {
		p.Stdout.Write(data)
		written = time.Now()
		return 0
	}
	bubble(t, handler, func(t *testing.T, sb sandbox.Sandbox) {
		ex, s, err := sb.Follow(t.Context(), sandbox.Command{Shell: "cmd", MaxOutput: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		began := time.Now()
		time.Sleep(time.Hour)
		if got := ex.Execution().Stdout.Total; got != window {
			t.Errorf("%d bytes were taken from a command whose reader does not read, want %d", got, window)
		}
		chunks, err := readAll(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for _, c := range chunks {
			if c.Gap > 0 || c.Offset != int64(len(got)) {
				t.Fatalf("chunk at %d with gap %d, want one at %d without", c.Offset, c.Gap, len(got))
			}
			got = append(got, c.Data...)
		}
		if !bytes.Equal(got, data) {
			t.Errorf("a single slow reader did not get everything")
		}
		if held := written.Sub(began); held != time.Hour {
			t.Errorf("the command was held for %v, want an hour", held)
		}
	})
}

func TestFastestReaderSetsThePace(t *testing.T) {
	data := numbered(head + 4*window)
	bubble(t, func(p *fake.Process) int { p.Stdout.Write(data); return 0 }, func(t *testing.T, sb sandbox.Sandbox) {
		ex, fast, err := sb.Follow(t.Context(), sandbox.Command{Shell: "cmd"})
		if err != nil {
			t.Fatal(err)
		}
		defer fast.Close()
		slow, err := ex.Stream(sandbox.Offsets{})
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		chunks, err := readAll(t.Context(), fast)
		if err != nil {
			t.Fatal(err)
		}
		check := func(who string, chunks []sandbox.Chunk, wantGap int64) {
			t.Helper()
			var pos, gap int64
			for _, c := range chunks {
				gap += c.Gap
				if c.Offset != pos+c.Gap || !bytes.Equal(c.Data, data[c.Offset:c.Offset+int64(len(c.Data))]) {
					t.Fatalf("%s reader got a wrong chunk at %d after %d", who, c.Offset, pos)
				}
				pos = c.Offset + int64(len(c.Data))
			}
			if gap != wantGap || pos != int64(len(data)) {
				t.Errorf("%s reader got to %d of %d with a gap of %d, want %d", who, pos, len(data), gap, wantGap)
			}
		}
		check("fast", chunks, 0)
		chunks, err = readAll(t.Context(), slow)
		if err != nil {
			t.Fatal(err)
		}
		check("slow", chunks, 3*window)
	})
}

func TestWithoutReaderNothingIsHeld(t *testing.T) {
	bubble(t, func(p *fake.Process) int { p.Stdout.Write(numbered(10 * head)); return 0 }, func(t *testing.T, sb sandbox.Sandbox) {
		ex, s, err := sb.Follow(t.Context(), sandbox.Command{Shell: "cmd"})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.Close()
		rec := wait(t, ex)
		if rec.Stdout.Total != 10*head || len(rec.Stdout.Head) != head {
			t.Errorf("recorded %d of %d bytes, want %d of %d", len(rec.Stdout.Head), rec.Stdout.Total, head, 10*head)
		}
		if _, err := s.Next(t.Context()); !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("Next of a closed stream gave %v, want ErrClosed", err)
		}
	})
}

func TestAlternatingBytesAreBounded(t *testing.T) {
	const pairs = 20000
	handler := func(p *fake.Process) int {
		for range pairs {
			p.Stdout.Write([]byte{'o'})
			p.Stderr.Write([]byte{'e'})
		}
		return 0
	}
	bubble(t, handler, func(t *testing.T, sb sandbox.Sandbox) {
		ex, s, err := sb.Follow(t.Context(), sandbox.Command{Shell: "cmd"})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := ex.Execution().Stdout.Total; got >= pairs {
			t.Errorf("the order of %d single bytes is kept for a reader that does not read", 2*got)
		}
		s.Close()
		wait(t, ex)
		lines := replay(t, ex, sandbox.Offsets{})
		if len(lines) > 2*4096 {
			t.Errorf("the replay keeps the order of %d chunks", len(lines))
		}
	})
}

func TestNextReturnsWhenItsContextEnds(t *testing.T) {
	bubble(t, func(p *fake.Process) int { p.Sleep(time.Minute); io.WriteString(p.Stdout, "x"); return 0 }, func(t *testing.T, sb sandbox.Sandbox) {
		_, s, err := sb.Follow(t.Context(), sandbox.Command{Shell: "cmd"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next gave %v, want its context's error", err)
		}
		if c, err := s.Next(t.Context()); err != nil || string(c.Data) != "x" {
			t.Errorf("the Next after it gave %q, %v, want x", c.Data, err)
		}
	})
}

func TestReaderDoesNotHoldAnExecutionThatIsOver(t *testing.T) {
	handler := func(p *fake.Process) int {
		p.Spawn(func(p *fake.Process) int {
			p.Sleep(time.Second)
			p.Stdout.Write(numbered(4 * window))
			return 0
		}, fake.How{})
		p.Sleep(2 * time.Second) // the other is held by then
		return 0
	}
	bubble(t, handler, func(t *testing.T, sb sandbox.Sandbox) {
		ex, s, err := sb.Follow(t.Context(), sandbox.Command{Shell: "cmd", Wait: sandbox.WaitExit, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		synctest.Wait()
		time.Sleep(3 * time.Second)
		// Enough for what was in the pipe at the exit, and no more.
		for read := 0; read < window/2; {
			c, err := s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			read += len(c.Data)
		}
		if rec := wait(t, ex); rec.Status != sandbox.Completed {
			t.Errorf("%s after %v", rec.Status, rec.Duration)
		}
	})
}
