package httpapi

import (
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// logger returns l, or one that is silent.
func logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// A statusWriter remembers the status code that is answered.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader remembers the first final status.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// log writes the one line of a call that began at start. Err is what went wrong,
// with its cause, or nil.
func (c *call) log(start time.Time, err error) {
	level := slog.LevelInfo
	if c.w.status >= 500 {
		level = slog.LevelError
	}
	if !c.api.log.Enabled(c.r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("api", c.api.name),
		slog.String("method", c.r.Method),
		slog.String("path", c.shownPath()),
		slog.Int("status", c.w.status),
		slog.Duration("duration", time.Since(start)),
		slog.String("owner", c.principal.Owner),
	}
	if c.execution != "" {
		attrs = append(attrs, slog.String("execution", c.execution))
	}
	if err != nil {
		attrs = append(attrs, slog.String("err", cause(err)))
	}
	c.api.log.LogAttrs(c.r.Context(), level, "request", attrs...)
}

// cause returns err with the cause that the client was not shown.
func cause(err error) string {
	if shown, ok := err.(*Error); ok && shown.err != nil {
		return shown.Error() + ": " + shown.err.Error()
	}
	return err.Error()
}

// shownPath returns the path without what opens something.
func (c *call) shownPath() string {
	path := c.r.URL.EscapedPath()
	if c.secret != "" {
		path = strings.ReplaceAll(path, c.secret, "***")
	}
	return path
}
