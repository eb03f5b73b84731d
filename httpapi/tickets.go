package httpapi

import (
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox"
)

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
