package httpapi

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox"
)

const (
	defaultSize    = "small"
	defaultMinutes = 60 // a sandbox's life, where neither the request nor NewSandbox bounds it
	minMinutes     = 15
	maxMinutes     = 1440
)

// The labels that keep what a sandbox was asked for as.
const (
	labelSize    = "size"
	labelMinutes = "timeout_minutes"
)

func newSandboxes(s *service) *api {
	return &api{
		service:      s,
		name:         Sandboxes,
		prefix:       "/v1/sandboxes",
		authenticate: s.opts.AuthenticateSandboxes,
		fields: map[sandbox.Field]string{
			fieldKeyName:           "id",
			sandbox.FieldCommand:   "command",
			sandbox.FieldShell:     "command",
			sandbox.FieldDir:       "cwd",
			sandbox.FieldEnv:       "env",
			sandbox.FieldOpenStdin: "open_stdin",
			sandbox.FieldOffsets:   "offset",
			sandbox.FieldSignal:    "signal",
			sandbox.FieldName:      "path",
		},
		route:  routeSandboxes,
		public: publicPort,
		status: func(s statuses) int { return s.sandboxes },
		shape:  sandboxError,
	}
}

func routeSandboxes(path []string) (methods, error) {
	switch {
	case len(path) == 0:
		return methods{http.MethodGet: listSandboxes, http.MethodPost: createSandbox}, nil
	case slices.Contains(path, ""):
	case len(path) == 1:
		return methods{http.MethodGet: getSandbox, http.MethodDelete: deleteSandbox}, nil
	case len(path) == 2 && path[1] == "exec":
		return methods{http.MethodPost: execInSandbox}, nil
	case len(path) == 2 && path[1] == "executions":
		return methods{http.MethodGet: listExecutions}, nil
	case len(path) == 3 && path[1] == "executions":
		return methods{http.MethodGet: getExecution, http.MethodDelete: cancelExecution}, nil
	case len(path) == 2 && path[1] == "terminal":
		return methods{http.MethodGet: openTerminal}, nil
	case len(path) == 3 && path[1] == "terminal" && path[2] == "tickets":
		return methods{http.MethodPost: issueTicket}, nil
	case len(path) == 2 && path[1] == "egress":
		return methods{http.MethodGet: listEgress}, nil
	case len(path) == 2 && path[1] == "ports":
		return methods{http.MethodPost: openPort}, nil
	case len(path) >= 2 && path[1] == "files":
		return routeFiles(path[2:])
	case len(path) == 4 && path[1] == "executions":
		return routeExecution(path[3])
	}
	return nil, errNoRoute
}

// routeExecution returns the endpoints of what is below one execution.
func routeExecution(name string) (methods, error) {
	switch name {
	case "stream":
		return methods{http.MethodGet: attach}, nil
	case "stdin":
		return methods{http.MethodPost: writeStdin}, nil
	case "signal":
		return methods{http.MethodPost: signalExecution}, nil
	}
	return nil, errNoRoute
}

// errNoRoute is the answer to a path that the API does not have.
var errNoRoute = &Error{Status: http.StatusNotFound, Message: "there is no such route"}

type sandboxErrorBody struct {
	Error errorObject `json:"error"`
}

type errorObject struct {
	Message string `json:"message"`
	Type    string `json:"type"`
}

func sandboxError(e *Error) any {
	return sandboxErrorBody{errorObject{e.Error(), strings.ToLower(e.code())}}
}

type sandboxObject struct {
	ID             string      `json:"id"`
	Object         string      `json:"object"`
	Status         string      `json:"status"`
	Size           string      `json:"size,omitempty"`
	TimeoutMinutes json.Number `json:"timeout_minutes,omitempty"`
	CreatedAt      time.Time   `json:"created_at"`
	ExpiresAt      *time.Time  `json:"expires_at"`
}

func describe(sb sandbox.Sandbox) sandboxObject {
	info := sb.Info()
	object := sandboxObject{
		ID:             info.ID,
		Object:         "sandbox",
		Status:         statusWord(info.Status),
		Size:           info.Labels[labelSize],
		TimeoutMinutes: json.Number(info.Labels[labelMinutes]),
		CreatedAt:      info.CreatedAt.UTC(),
	}
	if !info.ExpiresAt.IsZero() {
		object.ExpiresAt = new(info.ExpiresAt.UTC())
	}
	return object
}

// statusWord is the API's word for a status.
func statusWord(s sandbox.SandboxStatus) string {
	switch s {
	case sandbox.SandboxClosing:
		return "deleting"
	case sandbox.SandboxClosed:
		return "deleted"
	}
	return string(s)
}

type list[T any] struct {
	Object  string `json:"object"`
	Data    []T    `json:"data"`
	HasMore bool   `json:"has_more"`
}

// createSandbox is POST /v1/sandboxes.
func createSandbox(c *call) error {
	var (
		size    = defaultSize
		minutes int
	)
	err := c.decode(map[string]field{
		"size":            intoChoice(&size, "small", "medium", "large"),
		"timeout_minutes": intoInteger(&minutes, minMinutes, maxMinutes),
	})
	if err != nil {
		return err
	}
	key := sandbox.Key{Owner: c.principal.Owner, Namespace: c.api.name}
	given, err := c.createOptions(c.r.Context(), key)
	if err != nil {
		return err
	}
	opts := c.api.sized(given, size, time.Duration(minutes)*time.Minute)
	c.clearWriteDeadline()
	sb, err := c.api.manager.Create(c.r.Context(), key, opts)
	c.setWriteDeadline()
	if errors.Is(err, sandbox.ErrClosed) {
		return &Error{Status: http.StatusServiceUnavailable, Message: "the service is shutting down", err: err}
	}
	if err != nil {
		return err
	}
	c.reply(http.StatusCreated, describe(sb))
	return nil
}

// sized returns given with the size and the lifetime that a client asks for; 0 is
// the default one. NewSandbox's own lifetime is the longest that a client gets.
func (a *api) sized(given *sandbox.CreateOptions, size string, lifetime time.Duration) *sandbox.CreateOptions {
	var opts sandbox.CreateOptions
	if given != nil {
		opts = *given
	}
	cfg := &opts.Config
	switch {
	case cfg.Lifetime <= 0 && lifetime == 0:
		cfg.Lifetime = defaultMinutes * time.Minute
	case cfg.Lifetime <= 0 || lifetime > 0 && lifetime < cfg.Lifetime:
		cfg.Lifetime = lifetime
	}
	if limits, ok := a.opts.Sizes[size]; ok {
		cfg.Limits = limits
	}
	cfg.Labels = maps.Clone(cfg.Labels)
	if cfg.Labels == nil {
		cfg.Labels = make(map[string]string)
	}
	cfg.Labels[labelSize] = size
	cfg.Labels[labelMinutes] = strconv.FormatFloat(cfg.Lifetime.Minutes(), 'f', -1, 64)
	return &opts
}

// listSandboxes is GET /v1/sandboxes.
func listSandboxes(c *call) error {
	p, err := c.page()
	if err != nil {
		return err
	}
	var own []sandbox.Sandbox
	for key, sb := range c.api.manager.OwnedBy(c.principal.Owner) {
		if key.Namespace == c.api.name {
			own = append(own, sb)
		}
	}
	boxes, more, err := cut(p, own)
	if err != nil {
		return err
	}
	data := []sandboxObject{}
	for _, sb := range boxes {
		data = append(data, describe(sb))
	}
	c.reply(http.StatusOK, list[sandboxObject]{Object: "list", Data: data, HasMore: more})
	return nil
}

// sandbox returns the sandbox that the path names.
func (c *call) sandbox() (sandbox.Sandbox, error) {
	key, err := c.key()
	if err != nil {
		return nil, err
	}
	sb, err := c.api.manager.Get(key)
	return sb, noSandbox(err)
}

// noSandbox words the error of a sandbox that is not found as clients know it.
func noSandbox(err error) error {
	if errors.Is(err, sandbox.ErrNotFound) {
		return &Error{Status: http.StatusNotFound, Message: "No sandbox with that id", err: err}
	}
	return err
}

// getSandbox is GET /v1/sandboxes/{id}.
func getSandbox(c *call) error {
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	c.reply(http.StatusOK, describe(sb))
	return nil
}

// deleteSandbox is DELETE /v1/sandboxes/{id}.
func deleteSandbox(c *call) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	if err := c.remove(key); err != nil {
		return noSandbox(err)
	}
	c.reply(http.StatusOK, describe(sb))
	return nil
}
