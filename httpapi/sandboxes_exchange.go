package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// maxAnswerHeader bounds the header of a program's answer.
	maxAnswerHeader = 1 << 20

	// drainTime is how long a client whose body nobody wants any more may be
	// silent before its connection is closed.
	drainTime = time.Second

	// halfDuplexTime is how long an early answer waits for the rest of the
	// request where the server cannot send one while it takes the other.
	halfDuplexTime = 10 * time.Second
)

// An exchange is one request to a program and its answer, over a connection of its
// own. A connection that was kept may be closed by the program just when the next
// request is sent, and then nobody can tell whether that has arrived.
//
// net/http's own Transport gives up on the rest of a body soon after the answer has
// ended, and on an answer when a body cannot be sent. Here both go their way.
type exchange struct {
	*call
	dial   func(ctx context.Context) (net.Conn, error)
	duplex bool // the answer may be sent while the body is read

	upload  *upload
	closing bool // the client is told that its connection will be closed
}

// newExchange returns the exchange for the request of c.
func (c *call) newExchange(dial func(ctx context.Context) (net.Conn, error)) *exchange {
	x := &exchange{call: c, dial: dial, duplex: c.r.ProtoMajor > 1 || c.r.ContentLength == 0}
	if !x.duplex {
		x.duplex = c.rc.EnableFullDuplex() == nil
	}
	return x
}

// errHalfDuplex: the answer began before the whole request was taken.
var errHalfDuplex = errors.New("an answer came before the request was sent whole, and this server's ResponseWriter has no EnableFullDuplex: the middleware that wraps it needs an Unwrap method")

// RoundTrip implements [http.RoundTripper]. The connection ends with the request's
// context.
func (x *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	conn, err := x.dial(ctx)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	r = r.WithContext(ctx) // a copy
	if r.Body != nil {
		x.upload = &upload{body: r.Body, rc: x.rc, over: make(chan struct{})}
		r.Body = x.upload
	}
	go x.send(r, conn)
	limited := &io.LimitedReader{R: conn, N: maxAnswerHeader}
	buffered := bufio.NewReader(limited)
	var resp *http.Response
	for resp == nil || resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
		// What comes before the answer is not passed on: nobody has looked through its header.
		if resp, err = http.ReadResponse(buffered, r); err != nil {
			conn.Close()
			return nil, err
		}
	}
	limited.N = math.MaxInt64
	if resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = upgraded{conn, buffered}
		return resp, nil
	}
	if !x.duplex {
		timer := time.NewTimer(halfDuplexTime)
		defer timer.Stop()
		select {
		case <-x.upload.over:
		case <-timer.C:
			conn.Close()
			return nil, errHalfDuplex
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	// A client stops sending what was refused early (RFC 9112, section 9.5).
	x.closing = resp.StatusCode >= 300 && !x.upload.isOver()
	resp.Body = &answer{ReadCloser: resp.Body, exchange: x, ctx: ctx, conn: conn}
	return resp, nil
}

// send sends the request. What the program does not take is dropped, so that a client
// that sends all before it reads gets to the answer.
func (x *exchange) send(r *http.Request, conn net.Conn) {
	u := x.upload
	if u != nil {
		defer close(u.over)
	}
	err := r.Write(unbuffered{conn})
	switch {
	case err == nil || u == nil: // the answer tells, or its absence
	case u.err != nil && u.err != io.EOF:
		conn.Close() // the program must not take a part for the whole
	default:
		u.bound(drainTime)
		_, _ = io.Copy(io.Discard, u)
	}
}

// settle ends the exchange, whose context has ended, and makes sure that nothing of
// the body is taken for the next request: with full duplex, net/http goes on after a
// Read that failed.
func (x *exchange) settle() {
	if x.r.ContentLength == 0 || x.r.ProtoMajor > 1 {
		return
	}
	whole := false
	if u := x.upload; u == nil {
		_ = x.rc.SetReadDeadline(time.Now().Add(drainTime))
	} else {
		if !u.isOver() && x.rc.SetReadDeadline(time.Unix(1, 0)) == nil {
			<-u.over
		}
		whole = u.isOver() && u.err == io.EOF
	}
	switch {
	case whole, x.closing:
	case x.w.status == 0:
		x.w.Header().Set("Connection", "close")
	default:
		x.abort = true
	}
}

// An upload is the body of a request on its way to a program. One goroutine reads it.
type upload struct {
	body  io.Reader
	rc    *http.ResponseController
	pause atomic.Int64  // how long the client may be silent; 0 is as long as it likes
	over  chan struct{} // closed when it is not read any more
	err   error         // of the last Read; valid when over is closed
}

// Read implements [io.Reader].
func (u *upload) Read(p []byte) (int, error) {
	if pause := u.pause.Load(); pause > 0 {
		_ = u.rc.SetReadDeadline(time.Now().Add(time.Duration(pause)))
	}
	n, err := u.body.Read(p)
	u.err = err
	return n, err
}

// Close does nothing: what is not sent may have to be read all the same.
func (u *upload) Close() error { return nil }

// bound says how long the client may be silent from now on, if no less was said before.
func (u *upload) bound(pause time.Duration) {
	for {
		old := u.pause.Load()
		if old != 0 && old <= int64(pause) {
			return
		}
		if u.pause.CompareAndSwap(old, int64(pause)) {
			_ = u.rc.SetReadDeadline(time.Now().Add(pause))
			return
		}
	}
}

// isOver reports whether nobody reads the body any more. A nil upload is over.
func (u *upload) isOver() bool {
	if u == nil {
		return true
	}
	select {
	case <-u.over:
		return true
	default:
		return false
	}
}

// An answer is the body of a program's answer. It ends when the request has been sent
// too: a program may answer first.
type answer struct {
	io.ReadCloser
	*exchange
	ctx  context.Context
	conn net.Conn
}

// Read implements [io.Reader].
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != io.EOF {
		return n, err
	}
	if n > 0 {
		return n, nil // the client has it before anything is waited for
	}
	if !a.upload.isOver() {
		if a.closing {
			a.upload.bound(drainTime)
		} else {
			a.upload.bound(sendTime)
		}
		select {
		case <-a.upload.over:
		case <-a.ctx.Done():
		}
	}
	return 0, io.EOF
}

// Close implements [io.Closer]. It does not read the rest, as the body's own would.
func (a *answer) Close() error { return a.conn.Close() }

// An upgraded connection has nothing to do with HTTP any more.
type upgraded struct {
	net.Conn
	buffered *bufio.Reader
}

func (u upgraded) Read(p []byte) (int, error) { return u.buffered.Read(p) }

// CloseWrite ends what is sent, where the connection can.
func (u upgraded) CloseWrite() error {
	if half, ok := u.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return u.Close()
}

// unbuffered has [http.Request.Write] send a body as it comes.
type unbuffered struct{ net.Conn }

// ReadFrom implements [io.ReaderFrom].
func (u unbuffered) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{u.Conn}, r)
}
