package httpapi

import (
	"bytes"
	"net/http"
)

// An eventWriter writes Server-Sent Events (the WHATWG HTML standard, section
// 9.2), each with one JSON document, and sends each on its way at once. It is for
// one goroutine.
type eventWriter struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	buf bytes.Buffer
}

// newEventWriter begins the response.
func newEventWriter(w http.ResponseWriter, rc *http.ResponseController) *eventWriter {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return &eventWriter{w: w, rc: rc}
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

// event sends one event. JSON has no raw newline, so one data line holds it.
func (e *eventWriter) event(name, id string, data any) error {
	e.buf.Reset()
	e.buf.WriteString("event: " + name + "\nid: " + id + "\ndata: ")
	if err := encoder(&e.buf).Encode(data); err != nil {
		return err
	}
	e.buf.WriteByte('\n')
	return e.send()
}

// ping sends a comment, which readers ignore.
func (e *eventWriter) ping() error {
	e.buf.Reset()
	e.buf.WriteString(": ping\n\n")
	return e.send()
}

func (e *eventWriter) send() error {
	if _, err := e.w.Write(e.buf.Bytes()); err != nil {
		return err
	}
	return e.rc.Flush()
}
