//go:build unix

package pump_test

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/sandbox-go/sandbox/backend/pump"
)

// A gate is a sink whose writes wait until it is open.
type gate struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	open    chan struct{}
	waiting chan struct{} // has an element when a write began to wait
}

func newGate() *gate { return &gate{open: make(chan struct{}), waiting: make(chan struct{}, 1)} }

func (g *gate) Write(p []byte) (int, error) {
	select {
	case g.waiting <- struct{}{}:
	default:
	}
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.buf.Write(p)
}

func (g *gate) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.buf.String()
}

// A pipe is a pump and the end to write to.
type pipe struct {
	*pump.Pump
	w    *os.File
	over chan struct{}
}

func newPipe(t *testing.T, sink io.Writer) *pipe {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &pipe{w: w, over: make(chan struct{})}
	if p.Pump, err = pump.New(r, sink, func() { close(p.over) }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Close()
		<-p.over
	})
	return p
}

func (p *pipe) write(t *testing.T, s string) {
	t.Helper()
	if _, err := io.WriteString(p.w, s); err != nil {
		t.Fatal(err)
	}
}

func TestPumpDeliversToTheEnd(t *testing.T) {
	var sink bytes.Buffer
	p := newPipe(t, &sink)
	want := strings.Repeat("0123456789\x00\xff\n", 100_000)
	p.write(t, want)
	p.w.Close()
	<-p.over
	if sink.String() != want {
		t.Errorf("got %d bytes, want %d", sink.Len(), len(want))
	}
}

func TestFlushDeliversWhatIsThere(t *testing.T) {
	g := newGate()
	close(g.open)
	p := newPipe(t, g)
	for range 1000 {
		before := g.String()
		p.write(t, "x")
		p.Flush()
		if got := g.String(); got != before+"x" {
			t.Fatalf("after Flush: %q", got)
		}
	}
}

func TestFlushWaitsForTheSink(t *testing.T) {
	g := newGate()
	p := newPipe(t, g)
	p.write(t, "x")
	<-g.waiting
	flushed := make(chan struct{})
	go func() {
		p.Flush()
		close(flushed)
	}()
	select {
	case <-flushed:
		t.Error("Flush returned before the byte was with the sink")
	default:
	}
	close(g.open)
	<-flushed
}

func TestFinishWaitsForNobodyElse(t *testing.T) {
	g := newGate()
	p := newPipe(t, g)
	p.write(t, "before")
	p.Finish() // the writing end stays open
	p.write(t, "after")
	close(g.open)
	<-p.over
	if got := g.String(); got != "before" {
		t.Errorf("got %q", got)
	}
}

func TestDiscardedBytesGoNowhere(t *testing.T) {
	g := newGate()
	close(g.open)
	p := newPipe(t, g)
	p.write(t, "kept")
	p.Flush()
	p.Discard()
	p.write(t, strings.Repeat("dropped", 100_000)) // more than a pipe holds
	p.Flush()
	if got := g.String(); got != "kept" {
		t.Errorf("got %.20q", got)
	}
}

func TestDiscardWaitsForTheSink(t *testing.T) {
	g := newGate()
	p := newPipe(t, g)
	p.write(t, "x")
	<-g.waiting
	discarded := make(chan struct{})
	go func() {
		p.Discard()
		close(discarded)
	}()
	select {
	case <-discarded:
		t.Error("Discard returned while the sink was being written to")
	default:
	}
	close(g.open)
	<-discarded
	if got := g.String(); got != "x" {
		t.Errorf("got %q", got)
	}
}
