//go:build unix

package pump_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/sandbox-go/sandbox/backend"
)

// A borrower is a sink that takes what it is offered.
type borrower struct {
	offered chan backend.Source

	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *borrower) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *borrower) Offer(s backend.Source) bool {
	b.offered <- s
	return true
}

func (b *borrower) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// busy is as much as a pump reads at once.
var busy = strings.Repeat("0123456789abcdef", 4<<10)

// lent returns a pipe of which busy has been read, and which has then been lent.
func lent(t *testing.T) (*pipe, *borrower, backend.Source) {
	t.Helper()
	b := &borrower{offered: make(chan backend.Source, 1)}
	p := newPipe(t, b)
	p.write(t, busy)
	return p, b, <-b.offered
}

// pull pulls once, and returns what came.
func pull(s backend.Source) (got string, lent bool) {
	buf := make([]byte, 100)
	lent = s.Pull(buf, func(n int) { got = string(buf[:n]) })
	return got, lent
}

func TestPullReadsThePipe(t *testing.T) {
	p, b, s := lent(t)
	p.write(t, "pulled")
	if got, lent := pull(s); got != "pulled" || !lent {
		t.Errorf("got %q, lent %v", got, lent)
	}
	p.Flush() // nothing is left
	s.Release()
	p.write(t, "pumped")
	p.Flush()
	if got := b.String(); got != busy+"pumped" {
		t.Errorf("the sink got %d bytes, the last %q", len(got), got[len(got)-6:])
	}
	if got, lent := pull(s); got != "" || lent {
		t.Errorf("after Release: got %q, lent %v", got, lent)
	}
}

func TestFlushWaitsForAPull(t *testing.T) {
	p, _, s := lent(t)
	p.write(t, "pulled")
	flushed := make(chan struct{})
	s.Pull(make([]byte, 100), func(int) {
		go func() {
			p.Flush()
			close(flushed)
		}()
		select {
		case <-flushed:
			t.Error("Flush returned before the bytes were kept")
		default:
		}
	})
	<-flushed
	s.Release()
}

// What ends a Pull that waits.
func TestPullEnds(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(*pipe, backend.Source)
		lent bool
	}{
		{"interrupt", func(_ *pipe, s backend.Source) { s.Interrupt() }, true},
		{"release", func(_ *pipe, s backend.Source) { s.Release() }, false},
		{"finish", func(p *pipe, _ backend.Source) { p.Finish() }, false},
		{"discard", func(p *pipe, _ backend.Source) { p.Discard() }, false},
		{"end-of-file", func(p *pipe, _ backend.Source) { p.w.Close() }, false},
	} {
		for _, when := range []string{"before", "meanwhile"} {
			t.Run(test.name+"-"+when, func(t *testing.T) {
				p, b, s := lent(t)
				if when == "before" {
					test.end(p, s)
				} else {
					go test.end(p, s)
				}
				if got, lent := pull(s); got != "" || lent != test.lent {
					t.Errorf("got %q, lent %v", got, lent)
				}
				switch test.name {
				case "finish", "end-of-file":
					<-p.over
					return
				case "interrupt":
					p.write(t, "pulled")
					if got, lent := pull(s); got != "pulled" || !lent {
						t.Errorf("afterwards: got %q, lent %v", got, lent)
					}
					s.Release()
				}
				p.write(t, "pumped")
				p.Flush()
				if got, want := b.String(), busy+"pumped"; got != want && test.name != "discard" {
					t.Errorf("the sink got %d bytes, want %d", len(got), len(want))
				}
			})
		}
	}
}
