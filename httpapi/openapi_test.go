package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/sandbox-go/sandbox/httpapi"
)

func TestOpenAPI(t *testing.T) {
	rec := httptest.NewRecorder()
	httpapi.OpenAPI().ServeHTTP(rec, httptest.NewRequest("GET", "/openapi.yaml", nil))
	if got := rec.Header().Get("Content-Type"); rec.Code != 200 || got != "application/yaml" {
		t.Errorf("%d, %s", rec.Code, got)
	}
	doc, err := openapi3.NewLoader().LoadFromData(rec.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// document returns the document that is served, read so that an answer may have no
// property that it does not name.
var document = sync.OnceValue(func() *openapi3.T {
	rec := httptest.NewRecorder()
	httpapi.OpenAPI().ServeHTTP(rec, httptest.NewRequest("GET", "/openapi.yaml", nil))
	doc, err := openapi3.NewLoader().LoadFromData(rec.Body.Bytes())
	if err != nil {
		panic(err)
	}
	for name, schema := range doc.Components.Schemas {
		if len(schema.Value.Properties) > 0 && !strings.HasSuffix(name, "Request") {
			schema.Value.AdditionalProperties = openapi3.AdditionalProperties{Has: new(false)}
		}
	}
	return doc
})

// A documented is a transport that holds what it carries against the document.
type documented struct {
	http.RoundTripper
	t testing.TB
}

func (d documented) RoundTrip(r *http.Request) (*http.Response, error) {
	route, params := findRoute(r)
	var body io.ReadCloser
	if r.GetBody != nil {
		body, _ = r.GetBody()
	}
	resp, err := d.RoundTripper.RoundTrip(r)
	if err != nil || route == nil {
		return resp, err
	}
	input := &openapi3filter.RequestValidationInput{
		Request:     documentedRequest(r, route, body),
		PathParams:  params,
		QueryParams: r.URL.Query(),
		Route:       route,
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
			ExcludeRequestBody: body == nil || !isJSON(r, route),
		},
	}
	if resp.StatusCode < 400 {
		if err := openapi3filter.ValidateRequest(r.Context(), input); err != nil {
			d.t.Errorf("%s %s is answered with %d, but not as documented: %v", r.Method, r.URL, resp.StatusCode, err)
		}
	}
	d.check(resp, input)
	return resp, nil
}

// check holds an answer against the document.
func (d documented) check(resp *http.Response, input *openapi3filter.RequestValidationInput) {
	r := input.Request
	declared := input.Route.Operation.Responses.Status(resp.StatusCode)
	if declared == nil {
		d.t.Errorf("%s %s: status %d is not documented", r.Method, r.URL, resp.StatusCode)
		return
	}
	kind := resp.Header.Get("Content-Type")
	if resp.StatusCode != http.StatusSwitchingProtocols && declared.Value.Content[kind] == nil {
		d.t.Errorf("%s %s: content type %q is not documented with %d", r.Method, r.URL, kind, resp.StatusCode)
		return
	}
	switch kind {
	case "application/json":
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			d.t.Errorf("%s %s: read the answer: %v", r.Method, r.URL, err)
		}
		resp.Body = io.NopCloser(bytes.NewReader(body))
		answer := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header}
		if err := openapi3filter.ValidateResponse(r.Context(), answer.SetBodyBytes(body)); err != nil {
			d.t.Errorf("%s %s: answer %d: %v", r.Method, r.URL, resp.StatusCode, err)
		}
	case "text/event-stream":
		resp.Body = &documentedEvents{ReadCloser: resp.Body, t: d.t, schema: declared.Value.Content[kind].Schema.Value}
	}
}

// documentedEvents holds the events that were read against the schema of an event.
type documentedEvents struct {
	io.ReadCloser
	t      testing.TB
	schema *openapi3.Schema
	seen   bytes.Buffer
	once   sync.Once
}

func (d *documentedEvents) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	d.seen.Write(p[:n])
	if err != nil {
		d.once.Do(d.check)
	}
	return n, err
}

func (d *documentedEvents) check() {
	events := newEventReader(&d.seen)
	for {
		e, err := events.next()
		if err != nil {
			return
		}
		if e.name != ":" {
			checkDocumented(d.t, d.schema, fmt.Sprintf(`{"event":%q,"data":%s,"id":%q}`, e.name, e.data, events.id))
		}
	}
}

// checkDocumented holds a document against a schema.
func checkDocumented(t testing.TB, schema *openapi3.Schema, doc string) {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(doc), &value); err != nil {
		t.Errorf("%v: %s", err, doc)
		return
	}
	if err := schema.VisitJSON(value, openapi3.EnableJSONSchema2020()); err != nil {
		t.Errorf("%s is not as documented: %v", doc, err)
	}
}

// findRoute returns the operation that the document has for a request, or nil.
func findRoute(r *http.Request) (*routers.Route, map[string]string) {
	path := r.URL.EscapedPath()
	if r.URL.Opaque != "" {
		path = r.URL.Opaque
	}
	have := strings.Split(path, "/")
	for template, item := range document().Paths.Map() {
		operation := item.GetOperation(r.Method)
		want := strings.Split(template, "/")
		if operation == nil || len(want) != len(have) {
			continue
		}
		params := make(map[string]string)
		matches := true
		for i := range want {
			if name, ok := strings.CutPrefix(want[i], "{"); ok {
				value, err := url.PathUnescape(have[i])
				params[strings.TrimSuffix(name, "}")] = value
				matches = matches && err == nil && value != ""
			} else {
				matches = matches && want[i] == have[i]
			}
		}
		if matches {
			return &routers.Route{Spec: document(), Path: template, PathItem: item, Method: r.Method, Operation: operation}, params
		}
	}
	return nil, nil
}

// documentedRequest returns r with a body, as a client sends it that goes by the
// document.
func documentedRequest(r *http.Request, route *routers.Route, body io.ReadCloser) *http.Request {
	r = r.Clone(r.Context())
	r.Body, r.GetBody = body, nil
	if body != nil {
		sent, _ := io.ReadAll(body)
		r.Body = io.NopCloser(bytes.NewReader(bytes.TrimPrefix(sent, []byte("\ufeff")))) // which is ignored
	}
	if isJSON(r, route) {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// isJSON reports whether the body of a request is to be JSON.
func isJSON(r *http.Request, route *routers.Route) bool {
	body := route.Operation.RequestBody
	if body == nil || body.Value.Content["application/json"] == nil {
		return false
	}
	return len(body.Value.Content) == 1 || !r.URL.Query().Has("path")
}
