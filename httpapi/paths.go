package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

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
