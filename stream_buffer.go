package sandbox

// A ringBuffer holds the last bytes of a stream, up to a limit. Its memory grows with
// what it holds.
type ringBuffer struct {
	limit int
	buf   []byte // len is a power-of-two multiple of ringMin, at most limit
	end   int64  // bytes ever written
	n     int    // of these, how many are held
}

const ringMin = 4 << 10

// start returns the offset of the first byte held.
func (r *ringBuffer) start() int64 { return r.end - int64(r.n) }

// write appends p; the oldest bytes give way.
func (r *ringBuffer) write(p []byte) {
	if drop := len(p) - r.limit; drop > 0 {
		r.end += int64(drop)
		r.n = 0
		p = p[drop:]
	}
	r.grow(min(r.n+len(p), r.limit))
	for len(p) > 0 {
		n := copy(r.buf[r.end%int64(len(r.buf)):], p)
		r.end += int64(n)
		r.n = min(r.n+n, len(r.buf))
		p = p[n:]
	}
}

// grow makes room for n bytes.
func (r *ringBuffer) grow(n int) {
	if n <= len(r.buf) {
		return
	}
	size := max(len(r.buf), ringMin)
	for size < n {
		size *= 2
	}
	old := *r
	r.buf = make([]byte, min(size, r.limit))
	for off := old.start(); off < r.end; {
		p := old.slice(off, r.end)
		for len(p) > 0 {
			n := copy(r.buf[off%int64(len(r.buf)):], p)
			off += int64(n)
			p = p[n:]
		}
	}
}

// slice returns held bytes from off on, at most to end: those that lie together.
// They are valid until the next write.
func (r *ringBuffer) slice(off, end int64) []byte {
	at := int(off % int64(len(r.buf)))
	return r.buf[at:min(at+int(end-off), len(r.buf))]
}

// appendTo appends the held bytes of [off, end) to p.
func (r *ringBuffer) appendTo(p []byte, off, end int64) []byte {
	for off < end {
		s := r.slice(off, end)
		p = append(p, s...)
		off += int64(len(s))
	}
	return p
}

// A segment is bytes of one stream that came together.
type segment struct {
	source StreamID
	off    int64 // of its first byte, in its stream
	at     int64 // of its first byte, in the window
	n      int
}

// segments are the order in which bytes of both streams came. Two neighbours are
// never of the same stream: they are one.
type segments struct {
	list    []segment
	dropped int // segments that have left at the front
	bytes   int // in list
}

// next returns the number of the segment that will come next; the first is 0.
func (ss *segments) next() int { return ss.dropped + len(ss.list) }

// extends reports whether a write to s continues the last segment.
func (ss *segments) extends(s StreamID) bool {
	return len(ss.list) > 0 && ss.list[len(ss.list)-1].source == s
}

// add appends a segment, or makes the last one longer.
func (ss *segments) add(r segment) {
	ss.bytes += r.n
	if ss.extends(r.source) {
		ss.list[len(ss.list)-1].n += r.n
		return
	}
	ss.list = append(ss.list, r)
}

// addCoarse is add, but makes no more than maxSegments segments: after that it extends
// the last one of that stream, which is one of the last two.
func (ss *segments) addCoarse(r segment) {
	if len(ss.list) >= maxSegments && !ss.extends(r.source) {
		ss.bytes += r.n
		ss.list[len(ss.list)-2].n += r.n
		return
	}
	ss.add(r)
}

// shrink drops bytes and segments at the front, so that at most that many are left.
func (ss *segments) shrink(bytes, count int) {
	for ss.bytes > bytes || len(ss.list) > count {
		first := &ss.list[0]
		drop := first.n
		if len(ss.list) <= count {
			drop = min(drop, ss.bytes-bytes)
		}
		ss.bytes -= drop
		first.off += int64(drop)
		first.at += int64(drop)
		first.n -= drop
		if first.n > 0 {
			return
		}
		ss.list = ss.list[1:]
		ss.dropped++
	}
}

// start returns the offset of each stream's first byte in the list, or its total
// where the list has none.
func (ss *segments) start(total Offsets) Offsets {
	start := total
	for _, r := range ss.list[:min(2, len(ss.list))] {
		if r.source == Stdout {
			start.Stdout = r.off
		} else {
			start.Stderr = r.off
		}
	}
	return start
}
