package httpapi

import (
	"io"
	"net/http"

	"github.com/sandbox-go/sandbox/internal/jsonstream"
	"github.com/sandbox-go/sandbox/internal/text"
)

// An eventWriter writes Server-Sent Events (the WHATWG HTML standard, section
// 9.2), each with one JSON document, and sends each on its way at once. It is for
// one goroutine.
type eventWriter struct {
	w   *statusWriter
	buf []byte
}

// newEventWriter begins the response.
func newEventWriter(w *statusWriter) *eventWriter {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return &eventWriter{w: w}
}

// flushes reports whether an http.ResponseController can flush w.
func flushes(w http.ResponseWriter) bool {
	for {
		switch layer := w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = layer.Unwrap()
		default:
			return false
		}
	}
}

// maxLine bounds the lines of output events: readers have limits too, 64 KiB some of
// them.
const maxLine = 32 << 10

// event sends one event, whose size its document fixes. JSON has no raw newline, so
// one data line holds it. The id comes last: who takes a line that was cut off for
// the whole must not take up the stream behind what is missing.
func (e *eventWriter) event(name, id string, data any) error {
	if _, err := io.WriteString(e.w, "event: "+name+"\ndata: "); err != nil {
		return err
	}
	if err := jsonstream.Write(e.w, data); err != nil {
		return err
	}
	if _, err := io.WriteString(e.w, "\nid: "+id+"\n\n"); err != nil {
		return err
	}
	return e.w.flush()
}

// output sends the text of p, or of as much of it as one line holds, and returns how
// many bytes those are. The id is of what follows them.
func (e *eventWriter) output(name string, p []byte, id func(n int) string) (int, error) {
	e.buf = append(e.buf[:0], "event: "+name+"\n"...)
	line := len(e.buf)
	e.buf = append(e.buf, `data: {"data":"`...)
	const end = `"}`
	buf, n := text.AppendJSON(e.buf, p, maxLine-(len(e.buf)-line)-len(end))
	e.buf = append(buf, end+"\nid: "+id(n)+"\n\n"...)
	_, err := e.w.Write(e.buf)
	return n, err
}

// ping sends a comment, which readers ignore.
func (e *eventWriter) ping() error {
	if _, err := io.WriteString(e.w, ": ping\n\n"); err != nil {
		return err
	}
	return e.w.flush()
}
