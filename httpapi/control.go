package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/sandbox-go/sandbox"
)

// writeStdin is POST /v1/sandboxes/{id}/executions/{exec_id}/stdin.
func writeStdin(c *call) error {
	exec, err := c.exec()
	if err != nil {
		return err
	}
	n, closed, err := c.feed(exec)
	if err != nil {
		return err
	}
	c.reply(http.StatusOK, struct {
		Bytes  int64 `json:"bytes_written"`
		Closed bool  `json:"closed"`
	}{n, closed})
	return nil
}

// feed streams the request's body to the input of exec, as it comes and no faster
// than the command takes it, and closes the input after it if close=true asks for
// that.
func (c *call) feed(exec sandbox.Exec) (n int64, closed bool, err error) {
	q := c.query()
	closed = q.flag("close")
	if q.err != nil {
		return 0, false, q.err
	}
	// Whether anything can be written is known before a byte of the body is read.
	if _, err := exec.WriteStdin(c.r.Context(), nil); err != nil {
		return 0, false, c.notWritable(err)
	}
	c.liftAll()
	defer c.limit()
	defer c.readUntil(exec.Done())()
	if n, err = io.Copy(stdinWriter{c, exec}, bodyReader{c.r.Body}); err != nil {
		// The end of the reading may have ended the request's context too.
		if _, over := exec.WriteStdin(context.WithoutCancel(c.r.Context()), nil); over != nil {
			err = c.notWritable(over)
		}
		return n, false, err
	}
	if closed {
		err = exec.CloseStdin(c.r.Context())
	}
	return n, closed, c.notWritable(err)
}

// A stdinWriter writes to the input of exec for as long as the client of c stays.
type stdinWriter struct {
	c    *call
	exec sandbox.Exec
}

func (w stdinWriter) Write(p []byte) (int, error) {
	n, err := w.exec.WriteStdin(w.c.r.Context(), p)
	return n, w.c.notWritable(err)
}

// bodyReader is a request's body whose errors are the client's.
type bodyReader struct{ body io.Reader }

func (r bodyReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if err != nil && err != io.EOF {
		err = invalid("body", "could not be read")
	}
	return n, err
}

// notWritable words the error of an input that is not open. The input that a command
// was started without is not the fault of the body that is written to it.
func (c *call) notWritable(err error) error {
	var input *sandbox.InvalidError
	switch {
	case errors.As(err, &input):
		return &Error{Status: http.StatusConflict, Message: "the command's input is not open: start it with " + c.api.property(sandbox.FieldOpenStdin), err: err}
	case errors.Is(err, io.ErrClosedPipe):
		return &Error{Status: http.StatusConflict, Message: "the command's input was closed", err: err}
	}
	return over(err)
}

// over words the error of an execution that has ended.
func over(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return &Error{Status: http.StatusConflict, Message: "the execution is over", err: err}
	}
	return err
}

// signalExecution is POST /v1/sandboxes/{id}/executions/{exec_id}/signal.
func signalExecution(c *call) error {
	var signal sandbox.Signal
	if err := c.decode(map[string]field{"signal": intoSignal(&signal)}); err != nil {
		return err
	}
	if signal == 0 {
		return missing("signal")
	}
	exec, err := c.exec()
	if err != nil {
		return err
	}
	if err := exec.Signal(c.r.Context(), signal); err != nil {
		return over(err)
	}
	c.reply(http.StatusOK, describeExecution(exec.Execution()))
	return nil
}

// maxSignal is the last of Linux's signals.
const maxSignal = 64

// intoSignal decodes a signal: its name, as in "SIGINT", or its number.
func intoSignal(dst *sandbox.Signal) field {
	return func(value json.RawMessage) string {
		if kind(value) == "number" {
			return intoInteger((*int)(dst), 1, maxSignal)(value)
		}
		var name string
		if problem := intoString(&name)(value); problem != "" {
			return problem
		}
		for s := sandbox.Signal(1); s.Valid(); s++ {
			if s.String() == name || s.String() == "SIG"+name {
				*dst = s
				return ""
			}
		}
		return fmt.Sprintf("%q is no signal: name one, as in %q, or give its number, 1 to %d", name, sandbox.SIGINT, maxSignal)
	}
}
