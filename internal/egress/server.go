package egress

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sandbox-go/sandbox/internal/relay"
)

// A Protocol is how a connection was asked for.
type Protocol string

const (
	Connect Protocol = "connect" // CONNECT of an HTTP proxy
	HTTP    Protocol = "http"    // a plain request to an HTTP proxy
	SOCKS5  Protocol = "socks5"
)

// A Request asks for a connection.
type Request struct {
	Protocol Protocol
	Host     string // anything
	Port     uint16 // not 0
	Method   string // of HTTP
	Path     string // of HTTP
}

// An Error says why there is no connection, in words for who asked for it.
type Error struct {
	Refused bool // it is not allowed; else it failed
	Text    string
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// A Server serves those who ask for connections.
type Server struct {
	// Open makes a connection for a request. Its error is an *Error. The connection is
	// closed when it is over; where it has a method CloseWrite, that is called at the
	// end of what it is sent.
	Open func(context.Context, *Request) (net.Conn, error)

	// Header returns headers for a plain request that Open has made a connection for,
	// which replace those of the same names.
	Header func(context.Context, *Request) http.Header

	// MaxConns is how many connections are served at once: more wait. 0 is no bound.
	MaxConns int
}

const (
	askTime  = 30 * time.Second // within which a request has come, from its first byte on
	idleTime = 2 * time.Minute  // after which a connection without a request is closed

	maxHeaderBytes       = 64 << 10
	maxAnswerHeaderBytes = 256 << 10
)

// Serve serves the connections of l until ctx ends, or l does, and returns when none is
// left. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var open sync.WaitGroup
	defer open.Wait()
	requests := &handedOver{conns: make(chan net.Conn), done: ctx.Done(), addr: l.Addr()}
	hs := &http.Server{
		Handler:           &handler{s, ctx},
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: askTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(io.Discard, "", 0),
		Protocols:         new(http.Protocols),
		ConnState: func(c net.Conn, state http.ConnState) {
			switch state {
			case http.StateHijacked:
				c.(*client).served.Store(false)
			case http.StateClosed: // its handler has returned
				c.(*client).release()
			}
		},
	}
	hs.Protocols.SetHTTP1(true)
	open.Go(func() { hs.Serve(requests) })
	defer hs.Close()
	defer cancel()
	var slots chan struct{}
	if s.MaxConns > 0 {
		slots = make(chan struct{}, s.MaxConns)
	}
	for {
		if slots != nil {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
		conn, err := relay.Accept(ctx.Done(), l.Accept)
		if err != nil {
			return
		}
		open.Add(1)
		in := &client{Conn: conn}
		stop := context.AfterFunc(ctx, func() { in.Conn.Close() })
		in.release = sync.OnceFunc(func() {
			stop()
			if slots != nil {
				<-slots
			}
			open.Done()
		})
		open.Go(func() { s.serve(ctx, in, requests) })
	}
}

// serve sees by its first byte what a connection speaks.
func (s *Server) serve(ctx context.Context, in *client, requests *handedOver) {
	var first [1]byte
	in.SetReadDeadline(time.Now().Add(idleTime))
	if _, err := io.ReadFull(in.Conn, first[:]); err != nil {
		in.Close()
		return
	}
	in.SetReadDeadline(time.Time{})
	if first[0] == socksVersion {
		s.serveSOCKS(ctx, in)
		return
	}
	in.ahead = first[:]
	in.served.Store(true)
	select {
	case requests.conns <- in:
	case <-ctx.Done():
		in.served.Store(false)
		in.Close()
	}
}

// A client is a connection from inside.
type client struct {
	net.Conn
	ahead   []byte      // what was read of it already; for the goroutine that reads
	unread  atomic.Bool // ahead is not empty
	served  atomic.Bool // by the HTTP server, which says when it is done with it
	broken  atomic.Bool // it is to be broken off, and not to end
	release func()      // called when it is closed, or the server is done with it
}

func (c *client) Read(p []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		c.unread.Store(len(c.ahead) > 0)
		return n, nil
	}
	return c.Conn.Read(p)
}

// Raw implements [relay.Socket].
func (c *client) Raw() syscall.RawConn {
	if c.unread.Load() {
		return nil
	}
	return relay.RawOf(c.Conn)
}

// Carried implements [relay.Socket].
func (c *client) Carried(int, int) error { return nil }

// CloseWrite ends what is sent, where the connection can.
func (c *client) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// SetLinger has Close break the connection off, as that of a *net.TCPConn does with 0.
func (c *client) SetLinger(int) error {
	c.broken.Store(true)
	return nil
}

// Close ends what is sent: without that, the client could lose the last of it.
func (c *client) Close() error {
	if !c.broken.Load() {
		c.CloseWrite()
	}
	err := c.Conn.Close()
	if !c.served.Load() {
		c.release()
	}
	return err
}

// handedOver is a listener of connections that were accepted elsewhere.
type handedOver struct {
	conns chan net.Conn
	done  <-chan struct{}
	addr  net.Addr
}

func (h *handedOver) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (h *handedOver) Close() error   { return nil }
func (h *handedOver) Addr() net.Addr { return h.addr }
