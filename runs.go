package sandbox

// A run is bytes of one stream that came together.
type run struct {
	source Source
	off    int64 // of its first byte, in its stream
	at     int64 // of its first byte, in the window
	n      int
}

// A runs is the order in which bytes of both streams came. Two neighbours are
// never of the same stream: they are one.
type runs struct {
	list    []run
	dropped int // runs that have left at the front
	bytes   int // in list
}

// next returns the number of the run that will come next; the first is 0.
func (rs *runs) next() int { return rs.dropped + len(rs.list) }

// extends reports whether a write to s continues the last run.
func (rs *runs) extends(s Source) bool {
	return len(rs.list) > 0 && rs.list[len(rs.list)-1].source == s
}

// add appends a run, or makes the last one longer.
func (rs *runs) add(r run) {
	rs.bytes += r.n
	if rs.extends(r.source) {
		rs.list[len(rs.list)-1].n += r.n
		return
	}
	rs.list = append(rs.list, r)
}

// addCoarse is add, but makes no more than maxRuns runs: after that it extends
// the last one of that stream, which is one of the last two.
func (rs *runs) addCoarse(r run) {
	if len(rs.list) >= maxRuns && !rs.extends(r.source) {
		rs.bytes += r.n
		rs.list[len(rs.list)-2].n += r.n
		return
	}
	rs.add(r)
}

// shrink drops bytes and runs at the front, so that at most that many are left.
func (rs *runs) shrink(bytes, count int) {
	for rs.bytes > bytes || len(rs.list) > count {
		first := &rs.list[0]
		drop := first.n
		if len(rs.list) <= count {
			drop = min(drop, rs.bytes-bytes)
		}
		rs.bytes -= drop
		first.off += int64(drop)
		first.at += int64(drop)
		first.n -= drop
		if first.n > 0 {
			return
		}
		rs.list = rs.list[1:]
		rs.dropped++
	}
}

// start returns the offset of each stream's first byte in the list, or its total
// where the list has none.
func (rs *runs) start(total Offsets) Offsets {
	start := total
	for _, r := range rs.list[:min(2, len(rs.list))] {
		if r.source == Stdout {
			start.Stdout = r.off
		} else {
			start.Stderr = r.off
		}
	}
	return start
}
