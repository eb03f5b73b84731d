package sandbox

import (
	"context"
	"slices"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// holdTime is how long the only reader may be about its last chunk, or twice as long, before
// what it reads by itself is given back, so that the command is not held while there is room.
const holdTime = 2 * time.Millisecond

// A pulled is a source that the only reader reads by itself, while the window is empty. The
// output's lock guards it, and may be held while the source is interrupted or released.
type pulled struct {
	source  backend.Source // nil when there is none
	stream  StreamID
	reading bool        // a Pull may be in progress
	writers int         // writers that wait until there is none
	hold    *time.Timer // gives the source back that has been idle
	holding bool        // hold is running
	idle    bool        // no Pull has begun since hold began to run
}

// Offer implements [backend.Puller].
func (s sink) Offer(source backend.Source) bool {
	o := s.o
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.readers) != 1 || o.pulled.source != nil || o.unheld || o.dropped {
		return false
	}
	r := o.readers[0]
	if r.skips[s.source] {
		return false
	}
	o.pulled.source, o.pulled.stream = source, s.source
	o.holdLocked()
	r.wakeUp()
	return true
}

// holdLocked gives the reader time to come back. The timer runs on while it does, so that
// a chunk costs nothing.
func (o *output) holdLocked() {
	p := &o.pulled
	if p.holding {
		return
	}
	p.holding, p.idle = true, true
	if p.hold == nil {
		p.hold = time.AfterFunc(holdTime, o.held)
	} else {
		p.hold.Reset(holdTime)
	}
}

// held is called when holdTime is over.
func (o *output) held() {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := &o.pulled
	p.holding = false
	switch {
	case p.source == nil || p.reading:
	case p.idle:
		o.giveBackLocked()
	default:
		o.holdLocked()
	}
}

// giveBackLocked gives back what a reader reads by itself, if anything.
func (o *output) giveBackLocked() {
	if o.pulled.source == nil {
		return
	}
	o.pulled.source.Release()
	o.pulled.source = nil
}

// awaitPullLocked waits until no reader reads by itself: what it reads comes before what is
// to be written.
func (o *output) awaitPullLocked() {
	if !o.pulled.reading {
		return
	}
	o.pulled.writers++
	for o.pulled.reading {
		if o.pulled.source != nil {
			o.pulled.source.Interrupt()
		}
		o.room.Wait()
	}
	o.pulled.writers--
}

// pullLocked begins a Pull, if there is a source, nobody waits to write, and ctx has not
// ended. It returns the source, or nil.
func (r *reader) pullLocked(ctx context.Context) backend.Source {
	p := &r.o.pulled
	if p.source == nil || p.writers > 0 || ctx.Err() != nil {
		return nil
	}
	p.reading, p.idle = true, false
	r.pulling, r.pulledChunk = p.stream, Chunk{}
	return p.source
}

// pull reads by itself, and returns a chunk or false when it has been interrupted.
func (r *reader) pull(ctx context.Context, source backend.Source) (Chunk, bool) {
	r.interruptAfter(ctx, source)
	if cap(r.buf) < maxChunk {
		r.buf = make([]byte, maxChunk)
	}
	lent := source.Pull(r.buf[:maxChunk], r.keepPulled)
	c := r.pulledChunk
	if len(c.Data) == 0 || !lent {
		r.o.mu.Lock()
		defer r.o.mu.Unlock()
		r.o.endPullLocked()
		if !lent && r.o.pulled.source == source {
			r.o.pulled.source = nil
		}
	}
	return c, len(c.Data) > 0
}

func (o *output) endPullLocked() {
	o.pulled.reading = false
	if o.pulled.source != nil {
		o.holdLocked()
	}
	o.room.Broadcast()
}

// keepPulled keeps the n bytes of r.buf that a Pull has read.
func (r *reader) keepPulled(n int) {
	o := r.o
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.endPullLocked()
	if o.dropped {
		return
	}
	p := r.buf[:n:n]
	off := o.streams[r.pulling].total
	o.keepLocked(r.pulling, p, slices.ContainsFunc(o.readers, func(other *reader) bool { return other != r }))
	*r.pos.at(r.pulling) = off + int64(n)
	r.pulledChunk = Chunk{Source: r.pulling, Offset: off, Data: p}
	for _, other := range o.readers {
		if other != r {
			other.wakeUp()
		}
	}
}

// interruptAfter has source interrupted when ctx ends. It is asked once for each.
func (r *reader) interruptAfter(ctx context.Context, source backend.Source) {
	if r.watched == ctx.Done() && r.watchedSource == source {
		return
	}
	r.unwatch()
	r.watched, r.watchedSource = ctx.Done(), source
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, source.Interrupt)
		r.stopWatching.Store(&stop)
	}
}

// unwatch ends the interruptions. It may be called at any time.
func (r *reader) unwatch() {
	if stop := r.stopWatching.Swap(nil); stop != nil {
		(*stop)()
	}
}
