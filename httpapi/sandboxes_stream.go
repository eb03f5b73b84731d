package httpapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/internal/jsonstream"
	"github.com/sandbox-go/sandbox/internal/text"
)

// pingInterval is below the 15 s that the document promises, so that a ping that
// is late still keeps to them.
const pingInterval = 10 * time.Second

// follow runs cmd in sb and answers with its live output. Until the first event
// its errors are those of the unstreamed call. The command is killed when the
// client leaves.
func (c *call) follow(sb sandbox.Sandbox, cmd sandbox.Command, encoding string) error {
	if err := c.streams(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	exec, output, err := sb.Follow(ctx, cmd)
	if err != nil {
		return err
	}
	defer output.Close()
	c.execution = exec.ID()
	if err := c.api.failure(exec.Execution()); err != nil {
		return err
	}
	// The end of the request ends the command, and so in its turn the output: the
	// reading itself goes on to the last event.
	return c.tell(context.WithoutCancel(ctx), exec, output, sandbox.Offsets{}, encoding)
}

// attach is GET /v1/sandboxes/{id}/executions/{exec_id}/stream. Leaving it ends
// nothing.
func attach(c *call) error {
	if err := c.streams(); err != nil {
		return err
	}
	exec, err := c.exec()
	if err != nil {
		return err
	}
	q := c.query()
	from, encoding := c.from(q), q.choice("encoding", asText, asBase64)
	if q.err != nil {
		return q.err
	}
	output, err := exec.Stream(from)
	if err != nil {
		return err
	}
	defer output.Close()
	c.clearWriteDeadline()
	return c.tell(c.r.Context(), exec, output, from, encoding)
}

// streams returns the error of a server that cannot stream.
func (c *call) streams() error {
	if !flushes(c.w) {
		return &Error{Status: http.StatusInternalServerError, Message: "this server cannot stream: one of its layers hides http.Flusher and has no Unwrap"}
	}
	return nil
}

// tell answers with the events of exec, whose output is read from there on, until it
// is over or ctx ends.
func (c *call) tell(ctx context.Context, exec sandbox.Exec, output sandbox.Stream, from sandbox.Offsets, encoding string) error {
	// What is left is bounded once exec is over, also a Write that is blocked.
	defer c.setWriteDeadline()
	defer whenClosed(exec.Done(), c.setWriteDeadline)()
	f := &follower{events: newEventWriter(c.w, encoding), output: output, pos: from}
	if c.r.Method == http.MethodHead {
		return nil
	}
	err := f.event("start", struct {
		ID        string `json:"id"`
		SandboxID string `json:"sandbox_id"`
	}{exec.ID(), exec.Execution().SandboxID})
	if err != nil {
		return err
	}
	if err := f.copy(ctx); err != nil {
		return err
	}
	rec := exec.Execution()
	if err := c.api.failure(rec); err != nil {
		return errors.Join(err, f.event("error", c.api.shape(c.api.explain(err))))
	}
	return f.event("exit", describeExecution(rec))
}

// A follower makes events of output.
type follower struct {
	events *eventWriter
	output sandbox.Stream
	held   [2][]byte       // by source: the beginning of a character
	joined []byte          // what was held, and a chunk
	pos    sandbox.Offsets // of the first bytes that no event has told
}

// copy sends all of the output, with pings. An error means that an event could not
// be sent, or that ctx has ended.
func (f *follower) copy(ctx context.Context) error {
	for {
		over, err := f.copyFor(ctx, pingInterval)
		switch {
		case err != nil:
			return err
		case over:
			return f.finish()
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if err := f.events.ping(); err != nil {
			return err
		}
	}
}

// copyFor sends what comes within d, and reports whether that was the last.
func (f *follower) copyFor(ctx context.Context, d time.Duration) (over bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		chunk, err := f.next(ctx)
		if err != nil {
			// What ended the execution, if not it itself, is in its record.
			return err != ctx.Err(), nil
		}
		if chunk.Gap > 0 {
			err = f.gap(chunk)
		} else {
			err = f.chunk(chunk)
		}
		if err != nil {
			return false, err
		}
	}
}

// next returns what comes next. When nothing is there yet, it first sends what was told
// on its way: a client that is slower than the command costs no more than its bytes do.
func (f *follower) next(ctx context.Context) (sandbox.Chunk, error) {
	chunk, err := f.output.Next(ended)
	if err != ended.Err() {
		return chunk, err
	}
	if err := f.events.w.flush(); err != nil {
		return sandbox.Chunk{}, err
	}
	return f.output.Next(ctx)
}

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// chunk tells a chunk; of text, the whole characters that there are with it.
func (f *follower) chunk(c sandbox.Chunk) error {
	if f.events.encoding == asBase64 {
		return f.tell(c.Source, c.Data)
	}
	p, held := c.Data, f.held[c.Source]
	if len(held) > 0 {
		f.joined = append(append(f.joined[:0], held...), p...)
		p = f.joined
	}
	whole := text.Whole(p)
	if err := f.tell(c.Source, p[:whole]); err != nil {
		return err
	}
	f.held[c.Source] = append(held[:0], p[whole:]...)
	return nil
}

// gap tells that bytes are missing. What was held back before them will not be
// completed.
func (f *follower) gap(c sandbox.Chunk) error {
	if err := f.release(c.Source); err != nil {
		return err
	}
	*f.at(c.Source) = c.Offset
	return f.event("gap", struct {
		Stream string `json:"stream"`
		Bytes  int64  `json:"bytes"`
		Offset int64  `json:"offset"` // where the stream goes on
	}{c.Source.String(), c.Gap, c.Offset})
}

// finish tells what is held back of both streams.
func (f *follower) finish() error {
	return errors.Join(f.release(sandbox.Stdout), f.release(sandbox.Stderr))
}

// release tells what is held back.
func (f *follower) release(s sandbox.StreamID) error {
	held := f.held[s]
	f.held[s] = nil
	return f.tell(s, held)
}

// tell writes events of p, which follows what was told of that stream.
func (f *follower) tell(s sandbox.StreamID, p []byte) error {
	for len(p) > 0 {
		n, err := f.events.output(s.String(), p, func(n int) string {
			*f.at(s) += int64(n)
			return formatOffsets(f.pos)
		})
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// event sends one event, whose id is where a reader that has seen it goes on.
func (f *follower) event(name string, data any) error {
	return f.events.event(name, formatOffsets(f.pos), data)
}

func (f *follower) at(s sandbox.StreamID) *int64 {
	if s == sandbox.Stderr {
		return &f.pos.Stderr
	}
	return &f.pos.Stdout
}

// formatOffsets returns the id of an event: OUT-ERR, where a reader that has seen
// the event goes on, in bytes of each stream.
func formatOffsets(o sandbox.Offsets) string { return fmt.Sprintf("%d-%d", o.Stdout, o.Stderr) }

// parseOffsets is the inverse of formatOffsets.
func parseOffsets(id string) (o sandbox.Offsets, ok bool) {
	out, err, _ := strings.Cut(id, "-")
	for _, part := range []struct {
		text string
		dst  *int64
	}{{out, &o.Stdout}, {err, &o.Stderr}} {
		n, err := strconv.ParseUint(part.text, 10, 63)
		if err != nil {
			return sandbox.Offsets{}, false
		}
		*part.dst = int64(n)
	}
	return o, true
}

// from returns where the client wants to read on: its Last-Event-ID, which a
// browser sends when it connects again, or else the parameter offset.
func (c *call) from(q *query) sandbox.Offsets {
	name, id := "offset", q.text("offset")
	if last := c.r.Header.Get("Last-Event-ID"); last != "" {
		name, id = "Last-Event-ID", last
	}
	if id == "" {
		return sandbox.Offsets{}
	}
	o, ok := parseOffsets(id)
	if !ok {
		q.refuse(name, "must be two offsets, OUT-ERR, as in 12-0")
	}
	return o
}

// An eventWriter writes Server-Sent Events (the WHATWG HTML standard, section
// 9.2), each with one JSON document. Those of output wait for the next flush, the others
// are sent on their way at once. It is for one goroutine.
type eventWriter struct {
	w        *statusWriter
	encoding string // of output: asText or asBase64
	buf      []byte
}

// newEventWriter begins the response.
func newEventWriter(w *statusWriter, encoding string) *eventWriter {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return &eventWriter{w: w, encoding: encoding}
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

// output writes p, or as much of it as one line holds, and returns how many bytes those
// are. The id is of what follows them.
func (e *eventWriter) output(name string, p []byte, id func(n int) string) (int, error) {
	e.buf = append(e.buf[:0], "event: "+name+"\n"...)
	line := len(e.buf)
	e.buf = append(e.buf, `data: {"data":"`...)
	const end = `"}`
	room, n := maxLine-(len(e.buf)-line)-len(end), 0
	if e.encoding == asBase64 {
		n = min(len(p), base64.StdEncoding.DecodedLen(room))
		e.buf = base64.StdEncoding.AppendEncode(e.buf, p[:n])
	} else {
		e.buf, n = text.AppendJSON(e.buf, p, room)
	}
	e.buf = append(e.buf, end+"\nid: "+id(n)+"\n\n"...)
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
