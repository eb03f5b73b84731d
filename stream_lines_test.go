package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
)

// print returns a handler that writes pieces to stdout, or to stderr those that begin
// with "E:", with a second after each.
func print(pieces ...string) fake.Handler {
	return func(p *fake.Process) int {
		for _, piece := range pieces {
			if text, ok := strings.CutPrefix(piece, "E:"); ok {
				io.WriteString(p.Stderr, text)
			} else {
				io.WriteString(p.Stdout, piece)
			}
			p.Sleep(time.Second)
		}
		return 0
	}
}

// linesOf returns the lines of a stream, each as a text.
func linesOf(ctx context.Context, s sandbox.Stream) (all []string) {
	for line, err := range sandbox.Lines(ctx, s) {
		switch {
		case err != nil:
			all = append(all, err.Error())
		case line.Partial:
			all = append(all, fmt.Sprintf("%v %d-%d %q…", line.Source, line.Offset, line.End, line.Text))
		default:
			all = append(all, fmt.Sprintf("%v %d-%d %q", line.Source, line.Offset, line.End, line.Text))
		}
	}
	return all
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	for name, tt := range map[string]struct {
		pieces []string
		want   []string
	}{
		"none":                    {nil, nil},
		"split":                   {[]string{"a", "b\nc\r", "\n\nd"}, []string{`stdout 0-3 "ab"`, `stdout 3-6 "c"`, `stdout 6-7 ""`, `stdout 7-8 "d"…`}},
		"both":                    {[]string{"a", "E:b\nc", "d\n"}, []string{`stderr 0-2 "b"`, `stdout 0-3 "ad"`, `stderr 2-3 "c"…`}},
		"carriage":                {[]string{"10%\r20%\r\n"}, []string{`stdout 0-9 "10%\r20%"`}},
		"as-long-as-may":          {[]string{long, "\nb\n"}, []string{`stdout 0-65537 "` + long + `"`, `stdout 65537-65539 "b"`}},
		"too-long":                {[]string{long, "yz\n"}, []string{`stdout 0-65536 "` + long + `"…`, `stdout 65536-65539 "yz"`}},
		"too-long-in-a-character": {[]string{long[1:] + "€\n"}, []string{`stdout 0-65535 "` + long[1:] + `"…`, `stdout 65535-65539 "€"`}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, print(tt.pieces...), func(t *testing.T, sb sandbox.Sandbox) {
				_, s, err := sb.Follow(t.Context(), sandbox.Command{Shell: "cmd"})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if diff := cmp.Diff(tt.want, linesOf(t.Context(), s)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestLinesTellAGapAndGoOn(t *testing.T) {
	bubble(t, print("a\nbcd\nefg\nh\n"), func(t *testing.T, sb sandbox.Sandbox) {
		ex := start(t, sb, sandbox.Command{MaxOutput: 4, MaxTail: 4})
		wait(t, ex)
		s, err := ex.Stream(sandbox.Offsets{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		want := []string{
			`stdout 0-2 "a"`, `stdout 2-4 "bc"…`,
			"4 bytes of stdout before offset 8 are missing: they are not stored any more",
			`stdout 8-10 "g"`, `stdout 10-12 "h"`,
		}
		if diff := cmp.Diff(want, linesOf(t.Context(), s)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestLinesEnd(t *testing.T) {
	handler := func(p *fake.Process) int {
		io.WriteString(p.Stdout, "a\nb\nc")
		p.Sleep(time.Hour)
		p.LoseSandbox()
		return 0
	}
	bubble(t, handler, func(t *testing.T, sb sandbox.Sandbox) {
		_, s, err := sb.Follow(t.Context(), sandbox.Command{Shell: "cmd"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for line := range sandbox.Lines(t.Context(), s) {
			if line.Text == "a" {
				break
			}
		}
		// What had come in the same piece has gone with that iteration.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got := linesOf(ctx, s); len(got) != 1 || got[0] != context.DeadlineExceeded.Error() {
			t.Errorf("with a context that ends: %q", got)
		}
		var last error
		for _, err := range sandbox.Lines(t.Context(), s) {
			last = err
		}
		if !errors.Is(last, sandbox.ErrLost) {
			t.Errorf("the last error of a lost execution is %v", last)
		}
	})
}

func ExampleLines() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("build", func(p *fake.Process) int {
		io.WriteString(p.Stdout, "compil")
		io.WriteString(p.Stderr, "a warning\n")
		io.WriteString(p.Stdout, "ing\ndone\n")
		return 0
	})
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)

	_, stream, err := sb.Follow(ctx, sandbox.Command{Shell: "build"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Close()
	for line, err := range sandbox.Lines(ctx, stream) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(line.Source, line.Text)
	}
	// Output:
	// stderr a warning
	// stdout compiling
	// stdout done
}
