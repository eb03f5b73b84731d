//go:build unix

package local_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/local"
)

// A busy command's bytes are exact for each of its readers, whether one reads alone, as fast
// as it can or with pauses, or others come and go, and whatever the other stream does.
func TestBusyStream(t *testing.T) {
	b, err := local.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.WithoutCancel(t.Context())) })
	sb, err := sandbox.New(t.Context(), b, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close(context.WithoutCancel(t.Context())) })
	const line, most = "0123456789abcde\n", 16 << 20
	const command = "yes 0123456789abcde | head -c 16777216 & yes 0123456789abcde | head -c 1000000 >&2; wait"
	check := func(t *testing.T, c sandbox.Chunk) bool {
		for i, got := range c.Data {
			if want := line[(c.Offset+int64(i))%int64(len(line))]; got != want {
				t.Errorf("%v at %d: got %q, want %q", c.Source, c.Offset+int64(i), got, want)
				return false
			}
		}
		return true
	}
	for _, test := range []struct {
		name   string
		pause  time.Duration // at most, now and then
		others int           // readers that come and go
		wait   time.Duration // for a chunk, at most
	}{
		{"alone", 0, 0, 0},
		{"pauses", 10 * time.Millisecond, 0, 0},
		{"waits-end", 0, 0, time.Millisecond},
		{"others", 0, 20, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e, s, err := sb.Follow(t.Context(), sandbox.Command{Shell: command})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var others sync.WaitGroup
			defer others.Wait()
			var got, at [2]int64
			for n := 0; ; n++ {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if test.wait > 0 {
					ctx, cancel = context.WithTimeout(ctx, rand.N(test.wait))
				}
				c, err := s.Next(ctx)
				cancel()
				if errors.Is(err, context.DeadlineExceeded) {
					continue
				}
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if !check(t, c) {
					return
				}
				if c.Offset != at[c.Source]+c.Gap || c.Gap > 0 && test.others == 0 {
					t.Fatalf("%v at %d after %d, a gap of %d", c.Source, c.Offset, at[c.Source], c.Gap)
				}
				at[c.Source] = c.Offset + int64(len(c.Data))
				got[c.Source] += int64(len(c.Data)) + c.Gap
				if test.pause > 0 && n%20 == 0 {
					time.Sleep(rand.N(test.pause))
				}
				if n%10 == 5 && n/10 < test.others {
					others.Go(func() {
						other, err := e.Stream(sandbox.Offsets{})
						if err != nil {
							t.Error(err)
							return
						}
						defer other.Close()
						for range rand.N(50) {
							c, err := other.Next(t.Context())
							if err != nil || !check(t, c) {
								return
							}
						}
					})
				}
			}
			if want := [2]int64{most, 1_000_000}; got != want {
				t.Errorf("got %d bytes, want %d", got, want)
			}
		})
	}
}
