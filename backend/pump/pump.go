//go:build unix

package pump

import (
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// bufferSize is how much a pump reads at once.
const bufferSize = 64 << 10

// buffers are shared by all pumps. A pump has one only between a read and the
// end of its delivery, so that idle commands have none.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// A Pump moves what comes out of a pipe to a sink, from a goroutine of its own.
// It closes the pipe when it is over. Its methods may be called concurrently.
type Pump struct {
	pipe pipe
	sink io.Writer
	done func()

	mu        sync.Mutex // guards what follows
	changed   *sync.Cond
	read      int64 // taken from the pipe
	delivered int64 // of these, no longer on their way to the sink
	limit     int64 // where to end, or -1
	discard   bool
	writing   bool // a Write of the sink is in progress
	over      bool // every byte is with the sink, and there will be no more
	enlarged  bool
	loan      loan
}

// New starts a Pump. It owns r, the read end of a pipe or the master of a terminal,
// which must be in non-blocking mode, as those of [os.Pipe] are; after an error it
// does not. The sink takes bytes as Spec.Stdout does. Done is called once, from the Pump's
// goroutine, when the pipe has ended, or the end that Finish sets is reached, and
// every byte is with the sink.
func New(r *os.File, sink io.Writer, done func()) (*Pump, error) {
	raw, err := r.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := newPump(polledPipe{raw, r}, sink, done)
	go p.run()
	return p, nil
}

// Drain starts a Pump of what is in a pipe now, as if it had been finished at once.
// That takes less time than New. It owns fd, which must be in non-blocking mode.
func Drain(fd int, sink io.Writer, done func()) *Pump {
	p := newPump(drainedPipe(fd), sink, done)
	p.limit = p.endLocked()
	go p.run()
	return p
}

func newPump(from pipe, sink io.Writer, done func()) *Pump {
	p := &Pump{pipe: from, sink: sink, done: done, limit: -1}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// Flush waits until every byte that is in the pipe now is with the sink: what is to
// be done between a command's exit and the closing of its Exited channel.
func (p *Pump) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	end := p.limit
	if end < 0 {
		end = p.endLocked()
	}
	for p.delivered < end && !p.over {
		p.changed.Wait()
	}
}

// Finish has the pump end after what is in the pipe now, whoever else holds it: what
// is to be done when nothing of the command is left. It does not wait for the end.
func (p *Pump) Finish() {
	p.mu.Lock()
	if p.limit < 0 {
		p.limit = p.endLocked()
	}
	p.endLoanLocked()
	p.mu.Unlock()
	p.pipe.SetReadDeadline(time.Unix(1, 0)) // wakes the pump
}

// Discard has all further bytes go nowhere. It waits for a Write of the sink
// that is in progress.
func (p *Pump) Discard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discard = true
	p.endLoanLocked()
	p.changed.Broadcast()
	for p.writing {
		p.changed.Wait()
	}
}

// endLocked returns where the bytes that are in the pipe now end. No read runs
// meanwhile, so it counts none twice and none not at all.
func (p *Pump) endLocked() int64 {
	n := 0
	p.pipe.Control(func(fd uintptr) {
		// What was printed on a terminal is counted once it was looked for.
		unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		n, _ = unix.IoctlGetInt(int(fd), fionread)
	})
	return p.read + int64(n)
}

func (p *Pump) run() {
	for {
		buf, n := p.next()
		if n == 0 {
			break
		}
		p.deliver(buf[:n])
		buffers.Put(buf)
		if n == bufferSize {
			p.lend()
		}
	}
	p.mu.Lock()
	p.over = true
	p.changed.Broadcast()
	p.mu.Unlock()
	p.pipe.Close()
	p.done()
}

// next waits for bytes, and returns none at the end.
func (p *Pump) next() (buf *[bufferSize]byte, n int) {
	try := func(fd uintptr) (done bool) {
		buf, n, done = p.take(int(fd))
		return done
	}
	if p.pipe.Read(try) != nil {
		// Finish has ended the waiting: what is left is taken without.
		p.pipe.Control(func(fd uintptr) { try(fd) })
	}
	return buf, n
}

// take reads without waiting. It is done when it has bytes or when there will be
// none.
func (p *Pump) take(fd int) (buf *[bufferSize]byte, n int, done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	buf = buffers.Get().(*[bufferSize]byte)
	if n, done = p.readLocked(fd, buf[:]); n == 0 {
		buffers.Put(buf)
	}
	for more := n; more > 0 && n < bufferSize; n += more { // a sink takes much at once for less than little often
		more, _ = p.readLocked(fd, buf[n:])
	}
	if n == bufferSize && !p.enlarged {
		p.enlarged = true
		enlarge(fd)
	}
	return buf, n, done
}

// readLocked reads once, without waiting. It is done when it has bytes or when there will
// be none.
func (p *Pump) readLocked(fd int, buf []byte) (n int, done bool) {
	if p.limit >= 0 {
		buf = buf[:min(p.limit-p.read, int64(len(buf)))]
	}
	if len(buf) == 0 {
		return 0, true
	}
	n, err := ignoringEINTR(func() (int, error) { return unix.Read(fd, buf) })
	if n <= 0 {
		return 0, err != unix.EAGAIN || p.limit >= 0
	}
	p.read += int64(n)
	return n, true
}

func (p *Pump) deliver(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deliverLocked(len(b), func(int) { p.sink.Write(b) })
}

// deliverLocked has write bring the next n bytes to the sink.
func (p *Pump) deliverLocked(n int, write func(n int)) {
	p.writing = !p.discard
	if p.writing {
		p.mu.Unlock()
		write(n)
		p.mu.Lock()
	}
	p.writing = false
	p.delivered += int64(n)
	p.changed.Broadcast()
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != unix.EINTR {
			return n, err
		}
	}
}
