package httpapi

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/sandbox-go/sandbox"
)

const (
	maxPort = 65535

	// maxPorts bounds the URLs of one sandbox.
	maxPorts = 256

	// maxOwnerPorts bounds the URLs of all sandboxes of one owner.
	maxOwnerPorts = 1024
)

// A portTable has the ports that have a URL. A URL is as good as a key to its port:
// it has a token that nobody can guess, and ends with the sandbox.
type portTable struct {
	mu        sync.Mutex // guards all below
	byToken   map[string]*port
	bySandbox map[string]map[int]*port // by the sandbox's id and the number
	byOwner   map[string]int           // how many there are
}

// A port is a TCP port of a sandbox that has a URL.
type port struct {
	key    sandbox.Key
	box    sandbox.Sandbox
	number int
	token  string
}

func newPortTable() *portTable {
	return &portTable{byToken: make(map[string]*port), bySandbox: make(map[string]map[int]*port), byOwner: make(map[string]int)}
}

// open returns the port of that number, the same one whenever it is asked for.
func (t *portTable) open(key sandbox.Key, box sandbox.Sandbox, number int) (*port, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ports := t.bySandbox[box.ID()]
	if p := ports[number]; p != nil {
		return p, nil
	}
	if len(ports) >= maxPorts {
		return nil, &Error{Status: http.StatusTooManyRequests, Message: fmt.Sprintf("a sandbox has no more than %d ports", maxPorts)}
	}
	if t.byOwner[key.Owner] >= maxOwnerPorts {
		return nil, &sandbox.LimitError{Limit: "ports of one owner", Max: maxOwnerPorts}
	}
	if ports == nil {
		ports = make(map[int]*port)
		t.bySandbox[box.ID()] = ports
		whenClosed(box.Gone(), func() { t.close(box) })
	}
	p := &port{key: key, box: box, number: number, token: strings.ToLower(rand.Text())}
	t.byToken[p.token], ports[number] = p, p
	t.byOwner[key.Owner]++
	return p, nil
}

// close forgets the ports of a sandbox that is gone.
func (t *portTable) close(box sandbox.Sandbox) {
	t.mu.Lock()
	ports := t.bySandbox[box.ID()]
	delete(t.bySandbox, box.ID())
	for _, p := range ports {
		delete(t.byToken, p.token)
		if t.byOwner[p.key.Owner]--; t.byOwner[p.key.Owner] == 0 {
			delete(t.byOwner, p.key.Owner)
		}
	}
	t.mu.Unlock()
}

// find returns the port of a token, or nil.
func (t *portTable) find(token string) *port {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byToken[token]
}

// openPort is POST /v1/sandboxes/{id}/ports.
func openPort(c *call) error {
	var number int
	if err := c.decode(map[string]field{"port": intoInteger(&number, 1, maxPort)}); err != nil {
		return err
	}
	if number == 0 {
		return invalid("port", "Invalid input: expected number, received undefined")
	}
	key, err := c.key()
	if err != nil {
		return err
	}
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	select {
	case <-sb.Gone():
		return fmt.Errorf("port %d: %w", number, sandbox.ErrGone)
	default:
	}
	if !sb.Info().Backend.Ports {
		return errNoPorts
	}
	p, err := c.api.ports.open(key, sb, number)
	if err != nil {
		return err
	}
	c.reply(http.StatusOK, struct {
		URL  string `json:"url"`
		Port int    `json:"port"`
	}{c.portURL(p), number})
	return nil
}

// errNoPorts is the answer where there are none.
var errNoPorts = &Error{Status: http.StatusNotImplemented, Message: "this backend does not reach ports"}

// portURL returns where a port is to be reached.
func (c *call) portURL(p *port) string {
	base := c.base()
	if domain := c.api.opts.PortsDomain; domain != "" {
		base.Host, base.Path = p.token+"."+domain, ""
	} else {
		base = base.JoinPath(c.api.prefix, p.box.ID(), "ports", strconv.Itoa(p.number), p.token)
	}
	return base.String()
}

// base returns the URL that the documented paths are below, as the client has it.
func (c *call) base() *url.URL {
	if base, err := url.Parse(c.api.opts.BaseURL); err == nil && base.Host != "" {
		return base
	}
	base := &url.URL{Scheme: "http", Host: c.r.Host}
	if c.r.TLS != nil {
		base.Scheme = "https"
	}
	// What was taken away from the path before it came here.
	path, _, _ := strings.Cut(c.r.RequestURI, "?")
	if prefix, ok := strings.CutSuffix(path, c.r.URL.EscapedPath()); ok && strings.HasPrefix(prefix, "/") {
		base.Path, _ = url.PathUnescape(prefix)
	}
	return base
}

// publicPort returns the endpoint of a path below a port's URL, which has all that it
// takes to get in, or nil.
func publicPort(path []string) endpoint {
	if len(path) >= 4 && path[1] == "ports" {
		return enterPort
	}
	return nil
}

// enterPort is any request to /v1/sandboxes/{id}/ports/{port}/{token}/…
func enterPort(c *call) error {
	c.secret = c.path[3]
	p := c.api.ports.find(c.path[3])
	if c.api.opts.PortsDomain != "" || p == nil || p.box.ID() != c.path[0] || strconv.Itoa(p.number) != c.path[2] {
		return errNoPort
	}
	// The path is taken apart as it was sent: what is behind the token is the
	// program's own affair, "//" and "%2F" too.
	own := strings.SplitAfterN(strings.TrimPrefix(c.r.URL.EscapedPath(), c.api.prefix), "/", 6)
	rest := ""
	if len(own) == 6 {
		rest = "/" + own[5]
	}
	return c.proxy(p, rest)
}

// errNoPort is the answer to a URL that has ended, or never was.
var errNoPort = &Error{Status: http.StatusNotFound, Message: "there is no such port, or its sandbox is gone: ask for its URL again"}

// usePort returns the port with its sandbox, which is thereby not idle.
func (c *call) usePort(p *port) error {
	sb, err := c.api.manager.Get(p.key)
	if errors.Is(err, sandbox.ErrNotFound) || err == nil && sb.ID() != p.box.ID() {
		return errNoPort
	}
	return err
}

// A portHandler serves the ports that have a host of their own.
type portHandler struct{ *api }

// ServeHTTP answers one request.
func (h portHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, func(c *call) error {
		token, ok := strings.CutSuffix(strings.ToLower(r.Host), "."+strings.ToLower(h.opts.PortsDomain))
		c.secret = token
		p := h.ports.find(token)
		if !ok || p == nil || h.opts.PortsDomain == "" {
			return errNoPort
		}
		return c.proxy(p, r.URL.EscapedPath())
	})
}
