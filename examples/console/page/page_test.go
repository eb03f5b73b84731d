package page_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sandbox-go/sandbox/examples/console/page"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHandler(t *testing.T) {
	h := page.Handler()
	for path, contentType := range map[string]string{
		"/":                      "text/html",
		"/style.css":             "text/css",
		"/main.js":               "text/javascript",
		"/xterm/xterm.mjs":       "text/javascript",
		"/xterm/LICENSE":         "text/plain",
		"/icon.svg":              "image/svg+xml",
		"/xterm/xterm.css":       "text/css",
		"/xterm/addon-fit.mjs":   "text/javascript",
		"/xterm/LICENSE.missing": "",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		switch {
		case contentType == "" && w.Code != http.StatusNotFound:
			t.Errorf("%s: %d", path, w.Code)
		case contentType != "" && !strings.HasPrefix(w.Header().Get("Content-Type"), contentType):
			t.Errorf("%s: %d, %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'; script-src 'self'; ") {
			t.Errorf("%s: policy %q", path, policy)
		}
	}
}

// What the policy allows for xterm.js, the page itself does not use.
func TestPageHasNothingInline(t *testing.T) {
	w := httptest.NewRecorder()
	page.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	inline := regexp.MustCompile(`(?i)<style|\sstyle=|\son\w+=|<script[^>]*>[^<]|javascript:|https?://`)
	if found := inline.FindString(w.Body.String()); found != "" {
		t.Errorf("the page has %q", found)
	}
}
