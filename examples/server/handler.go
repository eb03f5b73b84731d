package main

import (
	"io"
	"net/http"
	"strings"

	"github.com/sandbox-go/sandbox/httpapi"
)

// handler returns the service's routes. A service whose mux may redirect a path
// such as /api/rooms//sandbox/exec can do with h.Register(mux). Here the three
// prefixes come before the mux, so that such a path is answered as the documents
// have it. With a domain for ports, all hosts below it are the ports'.
func handler(h *httpapi.Handlers, openRooms bool, portsDomain string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.Handle("/openapi.yaml", httpapi.OpenAPI())

	rooms := h.Rooms()
	if openRooms {
		// Without a key any web page could have its visitors run commands.
		protection := http.NewCrossOriginProtection()
		protection.SetDenyHandler(http.HandlerFunc(crossOrigin))
		rooms = protection.Handler(rooms)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case portsDomain != "" && strings.HasSuffix(r.Host, "."+portsDomain):
			h.Ports().ServeHTTP(w, r)
		case below(path, "/api/rooms"):
			rooms.ServeHTTP(w, r)
		case below(path, "/v1/sandboxes"):
			h.Sandboxes().ServeHTTP(w, r)
		case below(path, "/agents"):
			h.Agents().ServeHTTP(w, r)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

func below(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// crossOrigin refuses a request that another site's page has made.
func crossOrigin(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	io.WriteString(w, `{"error":"cross-origin requests are refused"}`+"\n")
}
