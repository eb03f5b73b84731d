package httpapi

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/sandbox-go/sandbox"
)

// upgradable returns the error of a request that is no good WebSocket handshake
// (RFC 6455, section 4.2.1). Package websocket checks it too, but does not answer in
// JSON.
func (c *call) upgradable() error {
	h := c.r.Header
	if c.r.Method != http.MethodGet {
		return &Error{Status: http.StatusMethodNotAllowed, Message: "method not allowed - only GET is supported", allow: http.MethodGet}
	}
	if c.r.ProtoMajor != 1 || !hasToken(h, "Connection", "upgrade") || !hasToken(h, "Upgrade", "websocket") {
		c.w.Header().Set("Connection", "Upgrade")
		c.w.Header().Set("Upgrade", "websocket")
		return &Error{Status: http.StatusUpgradeRequired, Message: "this is a WebSocket: connect to it by HTTP/1.1, with Upgrade: websocket"}
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(h.Get("Sec-WebSocket-Key")))
	if err != nil || len(key) != 16 || len(h.Values("Sec-WebSocket-Key")) != 1 {
		return invalid("Sec-WebSocket-Key", "must be 16 bytes in base64")
	}
	if h.Get("Sec-WebSocket-Version") != "13" {
		c.w.Header().Set("Sec-WebSocket-Version", "13")
		return invalid("Sec-WebSocket-Version", "must be 13")
	}
	return c.sameOrigin()
}

// hasToken reports whether a header is a list with that token.
func hasToken(h http.Header, name, token string) bool {
	for _, value := range h.Values(name) {
		for part := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// sameOrigin refuses a page of another site. Browsers let every page open a WebSocket
// anywhere, and say which it is by Origin; who sends none is no browser.
func (c *call) sameOrigin() error {
	origin := c.r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	u, err := url.Parse(origin)
	if err == nil && u.Host != "" {
		own := []string{c.r.Host, c.base().Host}
		if slices.ContainsFunc(own, func(host string) bool { return strings.EqualFold(host, u.Host) }) ||
			slices.ContainsFunc(c.api.opts.Origins, func(o string) bool { return strings.EqualFold(o, origin) }) {
			return nil
		}
	}
	return &Error{Status: http.StatusForbidden, Message: "pages of this origin may not open a terminal"}
}

// upgrade takes the connection over.
func (c *call) upgrade() (*websocket.Conn, error) {
	conn, err := websocket.Accept(c.w, c.r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // by sameOrigin
	if err == nil {
		c.w.status = http.StatusSwitchingProtocols
	}
	return conn, err
}

const (
	// ticketTime is how long a ticket may be used.
	ticketTime = 30 * time.Second

	// maxTickets bounds the tickets of one owner that nobody has used yet.
	maxTickets = 256
)

// A ticketStore has the tickets that nobody has used yet. A ticket opens one
// terminal of one sandbox, once: a browser can send no header with a WebSocket, and a
// key has no place in a URL.
type ticketStore struct {
	mu      sync.Mutex // guards all below
	tickets map[string]ticket
}

type ticket struct {
	principal Principal
	sandbox   string // the name of its key
	expires   time.Time
}

func newTicketStore() *ticketStore { return &ticketStore{tickets: make(map[string]ticket)} }

// issue returns a new ticket, and forgets those that have expired.
func (o *ticketStore) issue(p Principal, name string) (string, time.Time, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, own := time.Now(), 0
	for id, t := range o.tickets {
		if !now.Before(t.expires) {
			delete(o.tickets, id)
		} else if t.principal.Owner == p.Owner {
			own++
		}
	}
	if own >= maxTickets {
		return "", now, &sandbox.LimitError{Limit: "unused tickets of one owner", Max: maxTickets, RetryAfter: ticketTime}
	}
	id, expires := "ticket_"+strings.ToLower(rand.Text()), now.Add(ticketTime)
	o.tickets[id] = ticket{p, name, expires}
	return id, expires, nil
}

// redeem returns whose ticket it is, once.
func (o *ticketStore) redeem(id, sandbox string) (Principal, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t, ok := o.tickets[id]
	delete(o.tickets, id)
	return t.principal, ok && t.sandbox == sandbox && time.Now().Before(t.expires)
}

var errNoTerminals = &Error{Status: http.StatusNotImplemented, Message: "this backend has no terminals"}

// issueTicket is POST /v1/sandboxes/{id}/terminal/tickets.
func issueTicket(c *call) error {
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	if !sb.Info().Backend.Terminal {
		return errNoTerminals
	}
	id, expires, err := c.api.tickets.issue(c.principal, sb.ID())
	if err != nil {
		return err
	}
	c.w.Header().Set("Cache-Control", "no-store")
	c.reply(http.StatusCreated, struct {
		Ticket    string    `json:"ticket"`
		ExpiresAt time.Time `json:"expires_at"`
	}{id, expires.UTC()})
	return nil
}

// ticket returns the ticket in the request's URL, or nothing where none is taken.
func (c *call) ticket() string {
	if c.api.name != Sandboxes || len(c.path) != 2 || c.path[1] != "terminal" {
		return ""
	}
	return c.query().text("ticket")
}
