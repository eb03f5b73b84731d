package httpapi

import (
	_ "embed"
	"net/http"
	"strings"
	"time"
)

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
