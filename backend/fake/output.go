package fake

import (
	"io"
	"sync"
)

// pipeSize is how many bytes a pipe takes that nobody has read, as in Linux.
const pipeSize = 64 << 10

// output is the two output pipes of a command and the pump that empties them into
// the sinks, in the order of the writes.
type output struct {
	sinks [2]io.Writer
	over  chan struct{} // closed when the pump has ended

	mu       sync.Mutex // guards what follows
	changed  sync.Cond
	queue    []piece
	size     [2]int // bytes in the queue
	holders  int    // processes that may write
	put      int64  // bytes that came into the pipes, both together
	taken    int64  // of those, written to a sink or dropped
	writing  bool   // a sink is being called
	dropping bool   // what comes is dropped
	ended    bool   // nothing comes any more, whoever holds the pipes
	budget   int    // bytes until the connection is lost; 0 is without end
}

// piece is a run of bytes of one stream.
type piece struct {
	stream int
	data   []byte
}

func newOutput(stdout, stderr io.Writer) *output {
	o := &output{sinks: [2]io.Writer{stdout, stderr}, over: make(chan struct{})}
	o.changed.L = &o.mu
	return o
}

// pump writes what comes to the sinks, until nothing can come any more.
func (o *output) pump() {
	defer close(o.over)
	for {
		p, ok := o.take()
		if !ok {
			return
		}
		o.sinks[p.stream].Write(p.data)
		o.mu.Lock()
		o.writing = false
		o.taken += int64(len(p.data))
		o.changed.Broadcast()
		o.mu.Unlock()
	}
}

func (o *output) take() (piece, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) == 0 {
		if o.ended || o.holders == 0 {
			return piece{}, false
		}
		o.changed.Wait()
	}
	p := o.queue[0]
	o.queue = o.queue[1:]
	o.size[p.stream] -= len(p.data)
	o.writing = true
	o.changed.Broadcast()
	return p, true
}

// write puts b into a pipe, waiting for room until dead is closed. It reports
// whether the connection is lost with it.
func (o *output) write(stream int, b []byte, dead <-chan struct{}) (lost bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(b) > 0 && !isClosed(dead) && !o.dropping && !o.ended {
		room := pipeSize - o.size[stream]
		if room == 0 {
			o.changed.Wait()
			continue
		}
		n := min(len(b), room)
		if o.budget > 0 {
			n = min(n, o.budget)
			o.budget -= n
			lost = o.budget == 0
		}
		o.putLocked(stream, b[:n])
		if lost {
			return true
		}
		b = b[n:]
	}
	return false
}

func (o *output) putLocked(stream int, b []byte) {
	o.put += int64(len(b))
	o.size[stream] += len(b)
	if last := len(o.queue) - 1; last >= 0 && o.queue[last].stream == stream {
		o.queue[last].data = append(o.queue[last].data, b...)
	} else {
		o.queue = append(o.queue, piece{stream, append([]byte(nil), b...)})
	}
	o.changed.Broadcast()
}

// hold counts a process that may write.
func (o *output) hold() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.holders++
}

// release takes hold back.
func (o *output) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.holders--
	o.changed.Broadcast()
}

// written returns how many bytes have come.
func (o *output) written() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.put
}

// flush waits until that many bytes have been written to the sinks or dropped.
func (o *output) flush(mark int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.taken < mark {
		o.changed.Wait()
	}
}

// discard drops what is in the pipes and what will come, and waits for the sink
// that is being called.
func (o *output) discard() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropping = true
	for _, p := range o.queue {
		o.taken += int64(len(p.data))
	}
	o.queue, o.size = nil, [2]int{}
	o.changed.Broadcast()
	for o.writing {
		o.changed.Wait()
	}
}

// end lets nothing come any more. The pump empties the pipes and ends.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.changed.Broadcast()
}

func (o *output) loseAfter(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.budget = n
}

// wake lets those look again who wait with a channel that is closed now.
func (o *output) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed.Broadcast()
}
