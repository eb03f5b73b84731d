package httpapi

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/internal/jsonstream"
)

const (
	// maxName bounds the name of a sandbox, which is kept as long as it lives.
	maxName = 1024

	// sendTime is how long a client may take for each piece of an answer, of
	// jsonstream.PieceSize at most. It begins when the piece is being sent.
	sendTime = 30 * time.Second

	// removeTime bounds the removal of a sandbox that a client asks for.
	removeTime = 30 * time.Second
)

// A call is one request to an API.
type call struct {
	api       *api
	w         *statusWriter
	r         *http.Request
	rc        *http.ResponseController
	path      []string // after the API's prefix, unescaped
	principal Principal
	execution string // the id of what it ran, or empty
	abort     bool   // the answer was cut off
	broken    bool   // the answer ends with the reason why it is not whole
	secret    string // what of the path must not be logged, or empty
}

// key returns the key of the sandbox that the first segment of the path names.
func (c *call) key() (sandbox.Key, error) {
	name := c.path[0]
	switch {
	case !utf8.ValidString(name):
		return sandbox.Key{}, invalid(c.api.property(fieldKeyName), "must be UTF-8")
	case strings.ContainsRune(name, 0):
		return sandbox.Key{}, invalid(c.api.property(fieldKeyName), "must not contain a NUL byte")
	case len(name) > maxName:
		return sandbox.Key{}, invalid(c.api.property(fieldKeyName), fmt.Sprintf("must not be longer than %d bytes", maxName))
	}
	return sandbox.Key{Owner: c.principal.Owner, Namespace: c.api.name, Name: name}, nil
}

// decode reads the whole body, and then the known properties of the object in it.
// net/http notices that a client leaves only once the body has been read.
func (c *call) decode(known map[string]field) error {
	limited := http.MaxBytesReader(c.w, c.r.Body, maxBody)
	body, err := io.ReadAll(&valueCounter{r: limited})
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, errTooManyValues):
		// A client that is still sending would not read the answer.
		_, _ = io.Copy(io.Discard, limited)
		return errTooManyValues
	case errors.As(err, &large):
		return &Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the body must not be larger than %d bytes", maxBody)}
	case err != nil:
		return invalid("body", "could not be read")
	}
	return decode(body, known)
}

// clearWriteDeadline takes the server's write deadline off the connection for work that
// may take its time: it would cut the answer. What is written before setWriteDeadline
// may take its time too. A ResponseWriter without deadlines says ErrNotSupported, which
// is as good.
func (c *call) clearWriteDeadline() {
	c.w.patient.Store(true)
	_ = c.rc.SetWriteDeadline(time.Time{})
}

// clearDeadlines takes the server's read deadline off too, for a body that may take its
// time.
func (c *call) clearDeadlines() {
	c.clearWriteDeadline()
	_ = c.rc.SetReadDeadline(time.Time{})
}

// readUntil ends the reading of the body when done is closed. The function that it
// returns must be called before the handler returns.
func (c *call) readUntil(done <-chan struct{}) (stop func()) {
	return whenClosed(done, func() { _ = c.rc.SetReadDeadline(time.Unix(1, 0)) })
}

// setWriteDeadline bounds the sending of each piece of the answer from now on, and of
// one that is being sent.
func (c *call) setWriteDeadline() {
	c.w.patient.Store(false)
	_ = c.rc.SetWriteDeadline(time.Now().Add(sendTime))
}

// reply answers with v, which is encoded as it is sent. When the client does not take the
// answer, only the log says so.
func (c *call) reply(status int, v any) {
	c.begin(status)
	c.sendJSON(v)
	c.finish()
}

// begin begins an answer in JSON.
func (c *call) begin(status int) {
	c.setWriteDeadline()
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
}

// sendJSON sends v. When v cannot be encoded the connection is cut, since the status
// has been sent.
func (c *call) sendJSON(v any) {
	if err := jsonstream.Write(c.w, v); err != nil && c.w.failed == nil {
		c.w.failed, c.abort = err, true
	}
}

// finish ends an answer in JSON. One that is not small is sent to its end here, to
// know whether it could be.
func (c *call) finish() {
	_, _ = io.WriteString(c.w, "\n")
	if c.w.sent > jsonstream.PieceSize {
		_ = c.w.flush()
	}
}

// refuse answers with e in the API's shape.
func (c *call) refuse(e *Error) {
	h := c.w.Header()
	if e.allow != "" {
		h.Set("Allow", e.allow)
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	c.reply(e.Status, c.api.shape(e))
}

// whenClosed calls f in a goroutine once done is closed, unless stop is called first.
// Stop waits for an f that has begun; f is not called after it. Without stop, the
// goroutine lives until done is closed.
func whenClosed(done <-chan struct{}, f func()) (stop func()) {
	var watcher sync.WaitGroup
	stopped := make(chan struct{})
	watcher.Go(func() {
		select {
		case <-done:
			f()
		case <-stopped:
		}
	})
	return func() {
		close(stopped)
		watcher.Wait()
	}
}
