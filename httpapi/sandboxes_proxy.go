package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	"github.com/sandbox-go/sandbox"
)

// pagePolicy is what a page from a sandbox may do when it is served from the
// service's own origin: it gets an origin that nobody else has, so that it can
// neither read what the service answers nor use what a browser keeps for it.
const pagePolicy = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"

// proxy passes the request on to a port, to a path of it.
func (c *call) proxy(p *port, path string) error {
	if err := c.usePort(p); err != nil {
		return err
	}
	if path == "" && strings.Contains(c.r.Header.Get("Accept"), "text/html") {
		return c.intoDirectory()
	}
	if path == "" {
		path = "/"
	}
	unescaped, err := url.PathUnescape(path)
	if err != nil {
		return errNoPort
	}
	// The answer, and a connection that it turns into, end with the sandbox.
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	defer whenClosed(p.box.Gone(), cancel)()
	c.clearDeadlines()
	defer c.setWriteDeadline()
	x := c.newExchange(func(ctx context.Context) (net.Conn, error) { return p.box.Dial(ctx, p.number) })
	defer x.settle()
	defer cancel()
	t := &tunnel{exchange: x, port: p, path: path, unescaped: unescaped}
	var failure error
	proxy := &httputil.ReverseProxy{
		Rewrite:        t.rewrite,
		ModifyResponse: t.modify,
		Transport:      x,
		FlushInterval:  -1,
		ErrorLog:       slog.NewLogLogger(c.api.log.Handler(), slog.LevelDebug),
		ErrorHandler:   func(_ http.ResponseWriter, _ *http.Request, err error) { failure = t.explain(err) },
	}
	proxy.ServeHTTP(portWriter{c.w, ctx, c.api.sessions}, c.r.WithContext(ctx))
	return failure
}

// intoDirectory sends a browser to the path with a slash at its end, without which the
// page's relative links would lead elsewhere.
func (c *call) intoDirectory() error {
	target := c.r.URL.EscapedPath()
	target = "./" + target[strings.LastIndexByte(target, '/')+1:] + "/"
	if c.r.URL.RawQuery != "" {
		target += "?" + c.r.URL.RawQuery
	}
	c.w.Header().Set("Location", target)
	c.w.WriteHeader(http.StatusTemporaryRedirect)
	return nil
}

// A tunnel is one request on its way to a port and back.
type tunnel struct {
	*exchange
	port            *port
	path, unescaped string
}

// ownHost reports whether the port has a host of its own, which shares nothing with
// the service's.
func (t *tunnel) ownHost() bool { return t.api.opts.PortsDomain != "" }

// rewrite makes the request that the sandbox sees. Nothing in it opens anything: no
// key of the service's, and not the token.
func (t *tunnel) rewrite(r *httputil.ProxyRequest) {
	out := r.Out
	out.URL = &url.URL{
		Scheme:   "http",
		Host:     net.JoinHostPort("localhost", strconv.Itoa(t.port.number)),
		Path:     t.unescaped,
		RawPath:  t.path,
		RawQuery: r.In.URL.RawQuery,
	}
	out.Host = out.URL.Host
	out.Header.Del("Authorization")
	out.Header.Del("Proxy-Authorization")
	out.Header.Del("Referer")
	if !t.ownHost() {
		out.Header.Del("Cookie")
	}
	// Programs that take WebSockets check that the page is theirs, by a host that they
	// do not know here. Whoever knows the token may connect.
	if out.Header.Get("Upgrade") != "" && out.Header.Get("Origin") != "" {
		out.Header.Set("Origin", "http://"+out.Host)
	}
	// Whatever a proxy before this one has noted down.
	for name, values := range out.Header {
		for _, value := range values {
			if strings.Contains(strings.ToLower(value), t.port.token) {
				out.Header.Del(name)
				break
			}
		}
	}
	r.SetXForwarded()
	base := t.base()
	out.Header.Set("X-Forwarded-Proto", base.Scheme)
	out.Header.Set("X-Forwarded-Host", base.Host)
	if t.ownHost() {
		out.Header.Del("X-Forwarded-Host")
	}
}

// modify makes the answer that the client sees.
func (t *tunnel) modify(resp *http.Response) error {
	h := resp.Header
	if t.closing && t.r.ProtoMajor == 1 {
		h.Set("Connection", "close")
	}
	if location := h.Get("Location"); location != "" {
		h.Set("Location", t.relocate(location))
	}
	if t.ownHost() {
		return nil
	}
	for _, name := range []string{
		// What a browser would do to the service's own origin.
		"Alt-Svc", "Clear-Site-Data", "Nel", "Origin-Agent-Cluster", "Report-To", "Reporting-Endpoints",
		"Service-Worker-Allowed", "Set-Cookie", "Strict-Transport-Security", "Www-Authenticate",
	} {
		h.Del(name)
	}
	// Added, not set: of several policies a browser follows each.
	h.Add("Content-Security-Policy", pagePolicy)
	return nil
}

// relocate returns a Location for the client: one that leads to the port's own root
// leads below the port's URL.
func (t *tunnel) relocate(location string) string {
	u, err := url.Parse(location)
	if err != nil {
		return location
	}
	if u.Host != "" {
		host, number := u.Hostname(), u.Port()
		if number == "" {
			number = "80"
		}
		ip := net.ParseIP(host)
		if number != strconv.Itoa(t.port.number) || host != "localhost" && (ip == nil || !ip.IsLoopback() && !ip.IsUnspecified()) {
			return location
		}
		u.Scheme, u.Host, u.User = "", "", nil
		if u.Path == "" {
			u.Path = "/"
		}
	}
	if u.Scheme != "" || !strings.HasPrefix(u.EscapedPath(), "/") {
		return location
	}
	root, err := url.Parse(t.portURL(t.port))
	if err != nil {
		return location
	}
	return strings.TrimSuffix(root.EscapedPath(), "/") + u.String()
}

// explain words the error of a request that was not answered.
func (t *tunnel) explain(err error) error {
	select {
	case <-t.port.box.Gone():
		return errNoPort
	default:
	}
	switch {
	case errors.Is(err, sandbox.ErrRefused):
		return &Error{Status: http.StatusBadGateway, Message: fmt.Sprintf("nobody listens on port %d of the sandbox", t.port.number), err: err}
	case errors.Is(err, errors.ErrUnsupported):
		return errNoPorts
	case errors.Is(err, errHalfDuplex):
		return &Error{Status: http.StatusBadGateway, Message: fmt.Sprintf("port %d of the sandbox answers before it has the whole request, which this server does not pass on", t.port.number), err: err}
	}
	return &Error{Status: http.StatusBadGateway, Message: fmt.Sprintf("port %d of the sandbox has not answered", t.port.number), err: err}
}

// A portWriter is what the proxy answers through.
type portWriter struct {
	*statusWriter
	ctx      context.Context // of the request and of the sandbox
	sessions *sessions
}

// Hijack takes the connection over, until ctx ends.
func (w portWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.status = http.StatusSwitchingProtocols
	end := w.sessions.begin()
	context.AfterFunc(w.ctx, func() {
		conn.Close()
		end()
	})
	return conn, buffered, nil
}
