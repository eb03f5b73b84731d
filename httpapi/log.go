package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sandbox-go/sandbox/internal/jsonstream"
)

// logger returns l, or one that is silent.
func logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// A statusWriter remembers what is answered, and bounds how long each piece of it may
// take.
type statusWriter struct {
	http.ResponseWriter
	rc      *http.ResponseController
	patient atomic.Bool // pieces may take their time
	status  int
	sent    int64 // bytes of the body
	failed  error // why not all of it was sent
}

// Write sends p, a piece at a time.
func (w *statusWriter) Write(p []byte) (n int, err error) {
	for {
		part := p[n:min(len(p), n+jsonstream.PieceSize)]
		bounded := !w.patient.Load()
		if bounded {
			_ = w.rc.SetWriteDeadline(time.Now().Add(sendTime))
		}
		m, err := w.ResponseWriter.Write(part)
		if bounded {
			// What comes next may take long to come.
			_ = w.rc.SetWriteDeadline(time.Time{})
		}
		n += m
		w.sent += int64(m)
		if err != nil && w.failed == nil {
			w.failed = err
		}
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// flush sends what was written on its way.
func (w *statusWriter) flush() error {
	bounded := !w.patient.Load()
	if bounded {
		_ = w.rc.SetWriteDeadline(time.Now().Add(sendTime))
	}
	err := w.rc.Flush()
	if err != nil && !errors.Is(err, http.ErrNotSupported) && w.failed == nil {
		w.failed = err
	}
	return err
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
// with its cause, or nil. Cut says that the client has not got all of the answer.
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
	attrs = append(attrs, slog.Int64("bytes", c.w.sent))
	if c.abort || c.broken || c.w.failed != nil {
		attrs = append(attrs, slog.Bool("cut", true))
	}
	if err == nil {
		err = c.w.failed
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
