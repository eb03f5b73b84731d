package sandbox

import (
	"sync"
	"unicode/utf8"

	"github.com/sandbox-go/sandbox/internal/text"
)

const (
	// defaultMaxOutput is what a record stores of each stream, from its
	// beginning: the cap that the sandboxes API documents.
	defaultMaxOutput = 1 << 20

	// windowSize is how far the fastest open reader may fall behind before the
	// command is held.
	windowSize = 256 << 10

	// maxSegments bounds how finely the order between the streams is kept, in the
	// window and in the store. A command that alternates between them byte by
	// byte is held sooner, and its replay is coarser.
	maxSegments = windowSize / 64
)

// An output is all that one execution has written and is still kept, in three
// places: each stream's head, up to the record's cap; each stream's tail, where
// asked for; and while readers are open the window, the last bytes of both
// streams together, which holds the command back when every reader is a whole
// window behind.
//
// A reader takes what comes next for it from whichever place has it. So a slow
// reader and a late one are the same thing.
type output struct {
	mu      sync.Mutex // guards all below, and the readers
	room    sync.Cond  // signals that a held writer may try again
	streams [2]stored
	order   segments // of the heads

	window         ringBuffer // of both streams
	windowSegments segments
	readers        []*reader
	pulled         pulled

	unheld  bool // from now on no writer waits for a reader
	dropped bool // from now on what is written goes nowhere
	over    bool // nothing more will come
	final   bool // nor will the record change
	err     error
}

// A stored is what is kept of one stream.
type stored struct {
	head    []byte
	maxHead int
	tail    ringBuffer
	total   int64
}

func newOutput(maxHead, maxTail int) *output {
	if maxHead == 0 {
		maxHead = defaultMaxOutput
	}
	o := &output{}
	o.room.L = &o.mu
	for s := range o.streams {
		o.streams[s].maxHead = max(maxHead, 0)
		o.streams[s].tail.limit = max(maxTail, 0)
	}
	return o
}

// A sink is where a backend writes one stream.
type sink struct {
	o      *output
	source StreamID
}

// Write takes p, and blocks while every reader is a whole window behind. It never
// fails.
func (s sink) Write(p []byte) (int, error) {
	s.o.write(s.source, p)
	return len(p), nil
}

func (o *output) write(s StreamID, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(p) > 0 {
		o.awaitPullLocked()
		if o.dropped {
			return
		}
		n := o.roomLocked(s, len(p))
		if n == 0 {
			o.room.Wait()
			continue
		}
		o.keepLocked(s, p[:n], len(o.readers) > 0)
		p = p[n:]
		for _, r := range o.readers {
			r.wakeUp()
		}
	}
}

// roomLocked returns how many of n bytes may come now.
func (o *output) roomLocked(s StreamID, n int) int {
	if o.unheld || len(o.readers) == 0 {
		return n
	}
	most := 0
	for _, r := range o.readers {
		room := 0
		if o.windowSegments.next()-r.segment < maxSegments || o.windowSegments.extends(s) {
			room = windowSize - int(min(r.behindLocked(), windowSize))
		}
		most = max(most, room)
		if r.lossless {
			n = min(n, room)
		}
	}
	return min(n, most)
}

// keepLocked puts p where it is kept, which without windowed is not the window: then its
// only reader has p, and all that is in the window.
func (o *output) keepLocked(s StreamID, p []byte, windowed bool) {
	st := &o.streams[s]
	if !windowed {
		o.window.n = 0
		o.windowSegments.shrink(0, 0)
	} else {
		o.windowSegments.add(segment{source: s, off: st.total, at: o.window.end, n: len(p)})
		o.window.write(p)
		o.windowSegments.shrink(o.window.n, maxSegments)
	}
	if fits := min(len(p), st.maxHead-int(min(st.total, int64(st.maxHead)))); fits > 0 {
		st.head = append(st.roomFor(fits), p[:fits]...)
		o.order.addCoarse(segment{source: s, off: st.total, n: fits})
	}
	st.total += int64(len(p))
	for _, r := range o.readers {
		if r.skips[s] {
			*r.pos.at(s) = st.total
		}
	}
	if st.total > int64(st.maxHead) && len(st.head) == st.maxHead {
		st.head = st.head[:text.Whole(st.head)]
	}
	if st.tail.limit > 0 {
		st.tail.write(p)
	}
}

// roomFor returns the head with room for n bytes more. A small one doubles. A large
// one gets eightfold, since each step leaves the old one behind as garbage; what is
// reserved and not needed goes back at the end.
func (st *stored) roomFor(n int) []byte {
	need := len(st.head) + n
	if need <= cap(st.head) {
		return st.head
	}
	size := 2 * cap(st.head)
	if size > 256<<10 {
		size = 8 * cap(st.head)
	}
	return append(make([]byte, 0, min(max(size, need), st.maxHead)), st.head...)
}

// tailStart returns the offset of the first stored byte after the head.
func (st *stored) tailStart() int64 {
	if st.tail.limit == 0 {
		return st.total
	}
	return max(st.tail.start(), int64(len(st.head)))
}

// snapshot returns what is stored of both streams.
func (o *output) snapshot() (stdout, stderr Output) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.streams[Stdout].snapshot(), o.streams[Stderr].snapshot()
}

func (st *stored) snapshot() Output {
	out := Output{Head: st.head[:len(st.head):len(st.head)], Total: st.total}
	if from := st.tailStart(); from < st.total {
		out.Tail = st.tail.appendTo(nil, from, st.total)
		if from > int64(len(st.head)) {
			out.Tail = skipContinuation(out.Tail)
		}
	}
	return out
}

// skipContinuation returns p without the end of a character whose beginning was
// cut off.
func skipContinuation(p []byte) []byte {
	for i := 0; i < utf8.UTFMax && i < len(p); i++ {
		if utf8.RuneStart(p[i]) {
			return p[i:]
		}
	}
	return p
}

// release lets every writer go on: from now on a reader that does not keep up
// loses bytes, and nobody waits for it.
func (o *output) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unheld = true
	o.giveBackLocked()
	o.room.Broadcast()
}

// drop has what is written from now on, and what a writer still waits with, go
// nowhere.
func (o *output) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropped = true
	o.giveBackLocked()
	o.room.Broadcast()
}

// end says that nothing more will come. Err is what readers are told at the end,
// nil for io.EOF: the lossless ones at once, the others by conclude.
func (o *output) end(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over, o.err, o.dropped = true, err, true
	o.giveBackLocked()
	o.room.Broadcast()
	for _, r := range o.readers {
		r.wakeUp()
	}
	for s := range o.streams {
		if st := &o.streams[s]; cap(st.head)-len(st.head) > len(st.head)/4 {
			st.head = append(make([]byte, 0, len(st.head)), st.head...)
		}
	}
}

// conclude says that the record is final: readers that have all come to the end.
func (o *output) conclude() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.final = true
	for _, r := range o.readers {
		r.wakeUp()
	}
}

// size returns how many bytes are kept for the record. It does not change any more
// once the output is over.
func (o *output) size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	size := int64(0)
	for s := range o.streams {
		size += int64(cap(o.streams[s].head) + len(o.streams[s].tail.buf))
	}
	return size
}
