// Package page is the console's page: static files that need no build step and no
// network, and talk to nothing but /v1/sandboxes on the host that they came from.
package page

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed static
var static embed.FS

// policy lets the page load what is served with it and reach its own host, and no more.
// Trusted Types make the browser refuse any text that a script would turn into markup.
//
// Inline styles are allowed because xterm.js makes style elements of its theme and of the
// size of its cells, and style attributes of colours. Nothing else here has any.
const policy = "default-src 'none'; " +
	"script-src 'self'; " +
	"style-src 'self' 'unsafe-inline'; " +
	"img-src 'self'; " +
	"connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Handler serves the page at /, and what belongs to it below.
func Handler() http.Handler {
	root, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the path is a constant
	}
	files := http.FileServerFS(root)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-cache") // the files of another build are at the same URLs
		files.ServeHTTP(w, r)
	})
}
