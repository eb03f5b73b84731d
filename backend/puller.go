package backend

// A Puller is a sink of a [Spec] that may take its bytes out of where they come from by
// itself: whoever reads them there need not wait for another goroutine that hands each
// piece on. A backend need not look for it; package pump does.
type Puller interface {
	// Offer lends a source to the sink, after a Write, and reports whether the sink takes
	// it. The sink then has it until it calls Release, or Pull returns false, and is
	// not written to before.
	Offer(Source) bool
}

// A Source is where a sink's bytes come from. Interrupt and Release do not wait, and may be
// called concurrently, with locks held, and when the source is no longer lent; Pull is for one
// goroutine.
type Source interface {
	// Pull waits for bytes, reads some into buf, and calls keep with their number: they
	// count as written to the sink when that returns. It does not call keep when it
	// was interrupted. It returns false when the source is no longer lent.
	Pull(buf []byte, keep func(n int)) bool

	// Interrupt ends a Pull that waits, or the next one.
	Interrupt()

	// Release gives the source back.
	Release()
}
