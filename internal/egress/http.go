package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox/internal/relay"
)

// A handler is an HTTP proxy. Each request is judged alone, however it shares its
// connection with others, and has a connection of its own to where it goes.
type handler struct {
	*Server
	ctx context.Context // of all
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		h.connect(w, r)
		return
	}
	req, err := plainRequest(r)
	if err != nil {
		http.Error(w, "egress: "+err.Error(), http.StatusBadRequest)
		return
	}
	conn, err := h.Open(r.Context(), req)
	if err != nil {
		http.Error(w, "egress: "+err.Error(), status(err))
		return
	}
	defer conn.Close()
	h.forward(w, r, req, conn)
}

// status is what a proxy answers where there is no connection.
func status(err error) int {
	var e *Error
	if errors.As(err, &e) && e.Refused {
		return http.StatusForbidden
	}
	return http.StatusBadGateway
}

// plainRequest returns what a request other than CONNECT asks for. Its Host header is
// of no account (RFC 9112, section 3.2.2), and neither is a user in its URL.
func plainRequest(r *http.Request) (*Request, error) {
	switch {
	case r.URL.Host == "":
		return nil, errors.New("this is a proxy: ask for a whole URL, such as http://example.com/")
	case r.URL.Scheme != "http":
		return nil, fmt.Errorf("a plain request is for http://, and not for %.20q: use CONNECT", r.URL.Scheme)
	case r.URL.User != nil:
		return nil, errors.New("a URL with a user in it is ambiguous: send the header Authorization")
	case r.Method == http.MethodTrace:
		return nil, errors.New("TRACE would show headers that the sandbox is not to see")
	}
	host, port, err := splitHostPort(r.URL.Host, "80")
	if err != nil {
		return nil, err
	}
	return &Request{Protocol: HTTP, Host: host, Port: port, Method: r.Method, Path: r.URL.Path}, nil
}

// splitHostPort splits what stands for a host in a URL. An empty def is for a port that
// must be there.
func splitHostPort(s, def string) (string, uint16, error) {
	u := url.URL{Host: s}
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = def
	}
	n, err := parsePort(port)
	return host, n, err
}

// connect serves a CONNECT: from the answer on, bytes are bytes.
func (h *handler) connect(w http.ResponseWriter, r *http.Request) {
	host, port, err := splitHostPort(r.URL.Host, "")
	if err != nil || r.RequestURI != r.URL.Host {
		http.Error(w, "egress: CONNECT is for a host and a port, as in CONNECT example.com:443", http.StatusBadRequest)
		return
	}
	// A client that has ended what it sends is there still: its context says otherwise.
	upstream, err := h.Open(h.ctx, &Request{Protocol: Connect, Host: host, Port: port, Method: r.Method})
	conn, buf, hijackErr := http.NewResponseController(w).Hijack()
	if hijackErr != nil {
		if upstream != nil {
			upstream.Close()
		}
		return
	}
	if err != nil {
		go refuse(conn, err)
		return
	}
	c := conn.(*client)
	early, _ := buf.Reader.Peek(buf.Reader.Buffered())
	c.ahead = slices.Clone(early)
	c.unread.Store(len(early) > 0)
	go func() { // the server's buffers go with the handler
		if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
			c.Close()
			upstream.Close()
			return
		}
		relay.Both(c, upstream)
	}()
}

// lingerTime is how long a client has to read why it was refused.
const lingerTime = time.Second

// refuse answers a CONNECT that leads nowhere. Many clients show nothing of an answer but
// the reason in its first line, so that is the text.
func refuse(conn net.Conn, err error) {
	defer conn.Close()
	text := "egress: " + err.Error()
	conn.SetDeadline(time.Now().Add(lingerTime))
	fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		status(err), text, len(text)+1, text)
	conn.(*client).CloseWrite()
	io.Copy(io.Discard, conn) // a close with something unread would break the answer off
}

// forward sends a plain request over its connection, and the answer back.
func (h *handler) forward(w http.ResponseWriter, r *http.Request, req *Request, conn net.Conn) {
	once := make(chan net.Conn, 1)
	once <- conn
	proxy := httputil.ReverseProxy{
		Transport: &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				select {
				case conn := <-once:
					return conn, nil
				default:
					return nil, errors.New("the connection is used already")
				}
			},
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxAnswerHeaderBytes,
		},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.Host = ""
			p.Out.URL.RawQuery = p.In.URL.RawQuery
			for name := range p.In.Header { // what it says of itself is as it was
				if strings.HasPrefix(name, "X-Forwarded-") || name == "Forwarded" {
					p.Out.Header[name] = p.In.Header[name]
				}
			}
			if h.Header != nil {
				for name, values := range h.Header(r.Context(), req) {
					p.Out.Header[http.CanonicalHeaderKey(name)] = values
				}
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "egress: "+req.Host+" has not answered as HTTP servers do", http.StatusBadGateway)
		},
	}
	proxy.ServeHTTP(w, r)
}
