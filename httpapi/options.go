package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/sandbox-go/sandbox"
)

// Options say who may do what, and what new sandboxes are made of. Functions are
// called concurrently. An error that one of them returns is answered as it says
// when it is an *Error, and as a 404 when it wraps sandbox.ErrNotFound. Any other
// is logged and answered with a 500 that does not show it.
type Options struct {
	// Authenticate says who makes a request, to any of the APIs that has no
	// function of its own below. Any error but an *Error is answered with a
	// 401. Nil refuses every request.
	Authenticate Authenticator

	// These are used instead of Authenticate, each for its own API, where they
	// are not nil.
	AuthenticateRooms     Authenticator
	AuthenticateSandboxes Authenticator
	AuthenticateAgents    Authenticator

	// NewSandbox decides what a sandbox is made of, when one is about to be
	// made: by its first use in rooms and agents, by request in sandboxes. Its context
	// ends when nobody waits for the sandbox any more. Nil, and nil options, are the
	// defaults. The options are not changed.
	NewSandbox func(context.Context, *NewSandboxRequest) (*sandbox.CreateOptions, error)

	// Authorize may refuse a command, or change it, before anything is made or
	// started for it. Nil allows every command.
	Authorize func(context.Context, *AuthorizeRequest) error

	// Sizes maps a size of the sandboxes API ("small", "medium", "large") to
	// limits, which then replace those that NewSandbox gave. A size that is not
	// in it is recorded only.
	Sizes map[string]sandbox.Limits

	// Origins are those whose pages may open a terminal, as in
	// "https://app.example.com", besides the service's own host. A page of any other
	// is refused, whatever key or ticket it has.
	Origins []string

	// BaseURL is where clients reach what the documented paths are below, as in
	// "https://sandboxes.example.com", for the URLs in answers. Empty, it is the
	// scheme and the host that each request came by: a service behind a proxy
	// that ends TLS needs it.
	BaseURL string

	// PortsDomain gives every port of a sandbox that is opened a host of its own,
	// TOKEN.PortsDomain, with the scheme of BaseURL: as in "ports.example.net",
	// with a port number if one is needed. Handlers.Ports serves them. Such a
	// page is a site like any other: it may keep cookies, and no policy is added.
	// So no cookie of the service's may reach that domain, and as the ports are
	// strangers to each other, it belongs on the Public Suffix List. Empty, ports
	// are served below the sandbox's own path, their pages confined by a
	// Content-Security-Policy.
	PortsDomain string

	// Logger takes one line per request. Nil is silent.
	Logger *slog.Logger
}

// A NewSandboxRequest says for whom and what for Options.NewSandbox is called.
type NewSandboxRequest struct {
	Principal Principal

	// Key is that of the sandbox; its Namespace is the API: Rooms, Sandboxes or Agents.
	// Name is empty in Sandboxes, where the id will be the name.
	Key sandbox.Key

	// Request is the first one that needs the sandbox. Its body has been read, and
	// its own context may have ended.
	Request *http.Request
}

// An AuthorizeRequest says who wants to run what, and where.
type AuthorizeRequest struct {
	Principal Principal

	// Key is that of the sandbox; its Namespace is the API: Rooms, Sandboxes or Agents.
	// In Rooms and Agents there may be no such sandbox yet.
	Key sandbox.Key

	// Request is the request for it, whose body has been read.
	Request *http.Request

	// Command is what it asks for. It may be changed, until Authorize returns.
	Command *sandbox.Command
}

// An Authenticator says who makes a request.
type Authenticator func(*http.Request) (Principal, error)

// A Principal is who makes a request.
type Principal struct {
	// Owner is the account that sandboxes belong to: sandbox.Key.Owner. It is
	// not the credential, of which an account may have several.
	Owner string
}

// authenticate finds out who makes the call.
func (c *call) authenticate() error {
	if id := c.ticket(); id != "" {
		p, ok := c.api.tickets.redeem(id, c.path[0])
		if !ok {
			return &Error{Status: http.StatusUnauthorized, Message: "the ticket is unknown, used or expired: get a new one"}
		}
		c.principal = p
		return nil
	}
	authenticate := c.api.authenticate
	if authenticate == nil {
		authenticate = c.api.opts.Authenticate
	}
	err := errors.New("no Authenticator is set")
	if authenticate != nil {
		c.principal, err = authenticate(c.r)
	}
	var chosen *Error
	if err == nil || errors.As(err, &chosen) {
		return err
	}
	c.w.Header().Set("WWW-Authenticate", "Bearer")
	return &Error{Status: http.StatusUnauthorized, Message: "missing or invalid API key", err: err}
}

// authorize asks whether cmd may run in the sandbox that the path names, and lets it be
// changed. What the core would refuse is refused here, so that no sandbox is made for it.
func (c *call) authorize(cmd *sandbox.Command) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	if c.api.opts.Authorize != nil {
		req := &AuthorizeRequest{Principal: c.principal, Key: key, Request: c.r, Command: cmd}
		if err := c.api.opts.Authorize(c.r.Context(), req); err != nil {
			return hookError(err)
		}
	}
	return cmd.Validate()
}

// createOptions asks what a new sandbox of that key is made of.
func (c *call) createOptions(ctx context.Context, key sandbox.Key) (*sandbox.CreateOptions, error) {
	if c.api.opts.NewSandbox == nil {
		return nil, nil
	}
	opts, err := c.api.opts.NewSandbox(ctx, &NewSandboxRequest{Principal: c.principal, Key: key, Request: c.r})
	return opts, hookError(err)
}

// hookError returns what the error of a user's function is answered with.
func hookError(err error) error {
	var chosen *Error
	switch {
	case err == nil || errors.As(err, &chosen):
		return err
	case errors.Is(err, sandbox.ErrNotFound):
		return &Error{Status: http.StatusNotFound, Message: "not found", err: err}
	}
	return &Error{Status: http.StatusInternalServerError, Message: "internal error", err: err}
}
