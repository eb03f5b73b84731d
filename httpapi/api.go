package httpapi

import (
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox"
)

// A service is what the three APIs have in common.
type service struct {
	manager  *sandbox.Manager
	opts     Options
	log      *slog.Logger
	ports    *portTable
	tickets  *ticketStore
	sessions *sessions
}

// An api is the handler of one of the three APIs.
type api struct {
	*service
	name         string
	prefix       string                   // what the paths of all its routes begin with
	authenticate Authenticator            // nil is Options.Authenticate
	fields       map[sandbox.Field]string // the request's names of what the core names

	// route returns the endpoints of the path after prefix.
	route func(path []string) (methods, error)

	// public returns the endpoint of a path that has in it all that it takes to
	// get in, for every method, or nil. Nil is none.
	public func(path []string) endpoint

	// status picks the API's column of the table of status codes.
	status func(statuses) int

	// shape returns the documented body of an error.
	shape func(*Error) any
}

// ServeHTTP answers one request.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.answer(w, r, (*call).serve) }

// answer answers one request as serve does.
func (a *api) answer(w http.ResponseWriter, r *http.Request, serve endpoint) {
	start := time.Now()
	rc := http.NewResponseController(w)
	c := &call{api: a, w: &statusWriter{ResponseWriter: w, rc: rc}, r: r, rc: rc}
	err := serve(c)
	if err != nil && c.w.status == 0 {
		c.refuse(a.explain(err))
	}
	if c.w.status != http.StatusSwitchingProtocols {
		c.setWriteDeadline() // the sending of what net/http still holds
	}
	c.log(start, err)
	if c.abort {
		panic(http.ErrAbortHandler)
	}
}

func (c *call) serve() error {
	path, ok := segments(c.r, c.api.prefix)
	if !ok {
		return &Error{Status: http.StatusNotFound, Message: "not found"}
	}
	c.path = path
	if c.api.public != nil {
		if serve := c.api.public(path); serve != nil {
			return serve(c)
		}
	}
	methods, err := c.api.route(path)
	if err != nil {
		return err
	}
	serve, err := methods.choose(c.r.Method)
	if err != nil {
		return err
	}
	if err := c.authenticate(); err != nil {
		return err
	}
	return serve(c)
}

// segments returns the unescaped segments of r's path after prefix, and false when
// the path is not below prefix. The path is split before it is unescaped, so "%2F"
// is part of a segment, and nothing is cleaned: "..", "." and "" are segments.
func segments(r *http.Request, prefix string) ([]string, bool) {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), prefix)
	if !ok || rest != "" && rest[0] != '/' {
		return nil, false
	}
	path := strings.Split(rest, "/")[1:]
	for i := range path {
		segment, err := url.PathUnescape(path[i])
		if err != nil {
			return nil, false
		}
		path[i] = segment
	}
	return path, true
}

// An endpoint answers a call, or returns an error before anything has been
// written.
type endpoint func(*call) error

// methods are the endpoints of one path by HTTP method.
type methods map[string]endpoint

// choose returns the endpoint for method. GET serves HEAD too (RFC 9110, 9.3.2).
func (m methods) choose(method string) (endpoint, error) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if e, ok := m[method]; ok {
		return e, nil
	}
	var allow []string
	for name := range m {
		allow = append(allow, name)
	}
	slices.Sort(allow)
	verb := " is supported"
	if len(allow) > 1 {
		verb = " are supported"
	}
	return nil, &Error{
		Status:  http.StatusMethodNotAllowed,
		Message: "method not allowed - only " + strings.Join(allow, " and ") + verb,
		allow:   strings.Join(allow, ", "),
	}
}
