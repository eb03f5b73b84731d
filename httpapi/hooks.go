package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/sandbox-go/sandbox"
)

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
