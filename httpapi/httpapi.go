package httpapi

import (
	"context"
	_ "embed"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox"
)

// The names of the three APIs: the namespaces (sandbox.Key.Namespace) of their
// sandboxes.
const (
	Rooms     = "rooms"
	Sandboxes = "sandboxes"
	Agents    = "agents"
)

// Handlers are the three APIs over one Manager. They may be used concurrently.
type Handlers struct {
	rooms, sandboxes, agents *api
}

// New returns the three APIs over m. Opts are copied. Nil opts are the defaults, which
// refuse every request: say who may call with Options.Authenticate. The Manager stays the
// caller's, who closes it.
func New(m *sandbox.Manager, opts *Options) *Handlers {
	if opts == nil {
		opts = &Options{}
	}
	s := &service{
		manager:  m,
		opts:     *opts,
		log:      logger(opts.Logger),
		ports:    newPortTable(),
		tickets:  newTicketStore(),
		sessions: &sessions{},
	}
	s.opts.Origins = slices.Clone(opts.Origins)
	return &Handlers{
		rooms:     newRooms(s),
		sandboxes: newSandboxes(s),
		agents:    newAgents(s),
	}
}

// Rooms returns the handler of /api/rooms/…
func (h *Handlers) Rooms() http.Handler { return h.rooms }

// Sandboxes returns the handler of /v1/sandboxes and /v1/sandboxes/…
func (h *Handlers) Sandboxes() http.Handler { return h.sandboxes }

// Agents returns the handler of /agents/…
func (h *Handlers) Agents() http.Handler { return h.agents }

// Ports returns the handler of the ports that have a host of their own, by
// Options.PortsDomain: route the requests for all hosts below that domain to it.
func (h *Handlers) Ports() http.Handler { return portHandler{h.sandboxes} }

// Wait waits until the terminals and the WebSockets to ports have ended, which
// http.Server.Shutdown does not know of, or until ctx ends, and returns its error
// then. They end with their sandboxes.
func (h *Handlers) Wait(ctx context.Context) error { return h.sandboxes.sessions.wait(ctx) }

// Register mounts the three APIs on mux, each under its documented prefix and for
// all methods. It panics, as mux.Handle does, when one of them conflicts with a
// pattern that is there already, which a catch-all for one method does, such as
// "GET /": leave its method out ("/"), or send the prefixes to the handlers before
// the mux, as examples/server does.
//
// A ServeMux answers a path with an empty segment, "." or ".." by a redirect
// before any handler sees it, where the documents want a 404 in JSON. A service to
// which that matters sends the prefixes to the handlers before its mux.
func (h *Handlers) Register(mux *http.ServeMux) {
	for _, a := range []*api{h.rooms, h.sandboxes, h.agents} {
		mux.Handle(a.prefix, a)
		mux.Handle(a.prefix+"/", a)
	}
}

// openAPI describes every route. The tests hold each of their requests and answers
// against it.
//
//go:embed openapi.yaml
var openAPI string

// OpenAPI returns a handler of the OpenAPI 3.1 document that describes the routes of
// the three APIs, by tradition at /openapi.yaml. It needs no key.
func OpenAPI() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(openAPI))
	})
}

// A sessions counts the connections that were taken over from the server, which
// waits for them no more.
type sessions struct {
	mu   sync.Mutex // guards all below
	n    int
	idle chan struct{} // closed when n gets 0; nil when it is 0
}

// begin counts one more, until end is called.
func (s *sessions) begin() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		s.idle = make(chan struct{})
	}
	s.n++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.n--; s.n == 0 {
			close(s.idle)
			s.idle = nil
		}
	})
}

// wait waits until there is none, or ctx ends.
func (s *sessions) wait(ctx context.Context) error {
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
