package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
)

func TestReader(t *testing.T) {
	out, err := numbered(2*window), numbered(8*window)
	handler := func(p *fake.Process) int {
		io.WriteString(p.Stdout, "first")
		p.Sleep(time.Second)
		p.Stderr.Write(err)
		p.Stdout.Write(out)
		return 0
	}
	bubble(t, handler, func(t *testing.T, sb sandbox.Sandbox) {
		ex := start(t, sb, sandbox.Command{MaxOutput: 5})
		r, openErr := ex.Reader(t.Context(), sandbox.Stdout, 0)
		if openErr != nil {
			t.Fatal(openErr)
		}
		defer r.Close()
		p := make([]byte, 3)
		for _, want := range []string{"fir", "st"} {
			if n, err := r.Read(p); string(p[:n]) != want || err != nil {
				t.Errorf("Read gave %q, %v, want %q", p[:n], err, want)
			}
		}
		time.Sleep(time.Hour)
		if rec := ex.Execution(); rec.Stderr.Total != int64(len(err)) || rec.Stdout.Total != window+5 {
			t.Errorf("%d bytes of stdout and %d of stderr came, want a window and all", rec.Stdout.Total, rec.Stderr.Total)
		}
		if rest, err := io.ReadAll(r); err != nil || !bytes.Equal(rest, out) {
			t.Errorf("the rest is %d bytes, %v, want %d", len(rest), err, len(out))
		}
	})
}

func TestReaderOfWhatIsStored(t *testing.T) {
	bubble(t, fake.Result(0, "0123456789", "e"), func(t *testing.T, sb sandbox.Sandbox) {
		ex := start(t, sb, sandbox.Command{MaxOutput: 3, MaxTail: 2})
		wait(t, ex)
		r, err := ex.Reader(t.Context(), sandbox.Stdout, 1)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		var gap *sandbox.GapError
		if !errors.As(err, &gap) || *gap != (sandbox.GapError{Source: sandbox.Stdout, Offset: 8, Bytes: 5}) || string(text) != "12" {
			t.Errorf("got %q, %v, want the beginning and the gap", text, err)
		}
		if text, err := io.ReadAll(r); string(text) != "89" || err != nil {
			t.Errorf("after the gap: %q, %v", text, err)
		}
		r.Close()
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("Read after Close gave %v", err)
		}
		var invalid *sandbox.InvalidError
		for _, from := range []struct {
			s   sandbox.StreamID
			off int64
		}{{sandbox.Stdout, -1}, {sandbox.Stdout, 11}, {sandbox.Stderr, 2}, {sandbox.StreamID(2), 0}} {
			if _, err := ex.Reader(t.Context(), from.s, from.off); !errors.As(err, &invalid) {
				t.Errorf("Reader(%v, %d) gave %v, want an *InvalidError", from.s, from.off, err)
			}
		}
	})
}

func TestReaderEnds(t *testing.T) {
	bubble(t, func(p *fake.Process) int { p.Sleep(time.Hour); p.LoseSandbox(); return 0 }, func(t *testing.T, sb sandbox.Sandbox) {
		ex := start(t, sb, sandbox.Command{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, tt := range []struct {
			ctx  context.Context
			want error
		}{{ctx, context.DeadlineExceeded}, {t.Context(), sandbox.ErrLost}} {
			r, err := ex.Reader(tt.ctx, sandbox.Stderr, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := r.Read(make([]byte, 1)); !errors.Is(err, tt.want) {
				t.Errorf("Read gave %v, want %v", err, tt.want)
			}
		}
	})
}

// news returns what Since gives, as one text per chunk.
func news(t *testing.T, ex sandbox.Exec, from sandbox.Offsets) ([]string, sandbox.Offsets) {
	t.Helper()
	chunks, next, err := ex.Since(from)
	if err != nil {
		t.Fatal(err)
	}
	return texts(chunks), next
}

func TestSince(t *testing.T) {
	bubble(t, print("ab", "E:EF", "gh0123456789"), func(t *testing.T, sb sandbox.Sandbox) {
		ex := start(t, sb, sandbox.Command{MaxOutput: 6, MaxTail: 4})
		var pos sandbox.Offsets
		for _, want := range [][]string{{`stdout 0 "ab"`}, {`stderr 0 "EF"`}, {`stdout 2 "gh01"`, "stdout 10 gap 4", `stdout 10 "6789"`}, nil} {
			synctest.Wait()
			var got []string
			if got, pos = news(t, ex, pos); cmp.Diff(want, got) != "" {
				t.Errorf("got %q, want %q", got, want)
			}
			if again, same := news(t, ex, pos); again != nil || same != pos {
				t.Errorf("asked at once again it gave %q", again)
			}
			time.Sleep(time.Second)
		}
		if want := (sandbox.Offsets{Stdout: 14, Stderr: 2}); pos != want {
			t.Errorf("the last offsets are %v, want %v", pos, want)
		}
		var invalid *sandbox.InvalidError
		if _, _, err := ex.Since(sandbox.Offsets{Stderr: 3}); !errors.As(err, &invalid) {
			t.Errorf("past the end it gave %v, want an *InvalidError", err)
		}
	})
}

// Who looks at what is new sets no pace: a slow reader loses nothing by it.
func TestSinceHoldsNothing(t *testing.T) {
	data := numbered(4 * window)
	bubble(t, func(p *fake.Process) int { p.Stdout.Write(data); return 0 }, func(t *testing.T, sb sandbox.Sandbox) {
		_, s, err := sb.Follow(t.Context(), sandbox.Command{Shell: "cmd", MaxOutput: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ex := sb.Execs()[0]
		synctest.Wait()
		for range 3 {
			chunks, next, err := ex.Since(sandbox.Offsets{})
			if err != nil || next.Stdout != window || !bytes.Equal(join(chunks), data[:window]) {
				t.Errorf("Since gave %d chunks to %d, %v, want the window", len(chunks), next.Stdout, err)
			}
			synctest.Wait()
		}
		chunks, err := readAll(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if got := join(chunks); !bytes.Equal(got, data) {
			t.Errorf("the reader got %d of %d bytes", len(got), len(data))
		}
	})
}

// join returns the data of all chunks.
func join(chunks []sandbox.Chunk) (all []byte) {
	for _, c := range chunks {
		all = append(all, c.Data...)
	}
	return all
}

func ExampleExec_reader() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("report", fake.Result(0, "<html>…</html>", "3 pages\n"))
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)

	ex, err := sb.Start(ctx, sandbox.Command{Shell: "report"})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := ex.Reader(ctx, sandbox.Stdout, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	page, err := io.ReadAll(r) // or io.Copy(w, r)
	fmt.Println(string(page), err)
	// Output:
	// <html>…</html> <nil>
}

func ExampleExec_since() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("train", fake.Result(0, "epoch 1\nepoch 2\n", "a warning\n"))
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)

	ex, err := sb.Start(ctx, sandbox.Command{Shell: "train"})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-ex.Done() // or look now and then, while it runs
	seen := sandbox.Offsets{Stdout: int64(len("epoch 1\n"))}
	chunks, seen, err := ex.Since(seen)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range chunks {
		fmt.Printf("%v %d %q\n", c.Source, c.Offset, c.Data)
	}
	fmt.Printf("%+v\n", seen)
	// Output:
	// stdout 8 "epoch 2\n"
	// stderr 0 "a warning\n"
	// {Stdout:16 Stderr:10}
}
