package files

import (
	"context"
	"io"
)

// bounded is a Reader until its context ends.
type bounded struct {
	ctx context.Context
	io.Reader
}

func (b bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.Reader.Read(p)
}

// given is a caller's Reader until its context ends, even while a Read of it blocks.
// That Read is then left behind.
type given struct {
	ctx context.Context
	io.Reader
	buf []byte // what is read into, since p is the caller's again when Read returns
}

// readFrom returns r until ctx ends, if ever.
func readFrom(ctx context.Context, r io.Reader) io.Reader {
	if ctx.Done() == nil {
		return r
	}
	return &given{ctx: ctx, Reader: r}
}

func (g *given) Read(p []byte) (int, error) {
	if err := g.ctx.Err(); err != nil {
		return 0, err
	}
	if len(g.buf) < len(p) {
		g.buf = make([]byte, len(p))
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := g.Reader.Read(g.buf[:len(p)])
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return copy(p, g.buf[:r.n]), r.err
	case <-g.ctx.Done():
		return 0, g.ctx.Err()
	}
}
