package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/sandbox-go/sandbox"
)

// placeFor returns the sandbox of that key, which is made when there is none, for a
// command that may run there. The write deadline is cleared from then on.
func (c *call) placeFor(key sandbox.Key, cmd *sandbox.Command) (sandbox.Sandbox, error) {
	if err := c.authorize(cmd); err != nil {
		return nil, err
	}
	c.clearWriteDeadline()
	return c.sandboxOf(key)
}

// cancel ends an execution, also when the client leaves, and returns its record. What
// could not be killed is in it.
func (c *call) cancel(exec sandbox.Exec) *sandbox.Execution {
	c.clearWriteDeadline()
	defer c.setWriteDeadline()
	_ = exec.Cancel(context.WithoutCancel(c.r.Context()))
	return exec.Execution()
}

// runIn runs cmd in the sandbox of that key, which is made when there is none. A
// client that leaves cancels the command: it will try again, and two copies must
// not run.
func (c *call) runIn(key sandbox.Key, cmd sandbox.Command) (*sandbox.Execution, error) {
	defer c.setWriteDeadline()
	sb, err := c.placeFor(key, &cmd)
	if err != nil {
		return nil, err
	}
	return c.run(c.r.Context(), sb, cmd)
}

// startIn is runIn, but answers after a while with what there is by then, if the
// command still runs. From then on it does not depend on the client any more.
func (c *call) startIn(key sandbox.Key, cmd sandbox.Command, wait time.Duration) (*sandbox.Execution, error) {
	defer c.setWriteDeadline()
	sb, err := c.placeFor(key, &cmd)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.r.Context()))
	detach := context.AfterFunc(c.r.Context(), cancel)
	exec, err := sb.Start(ctx, cmd)
	if err != nil {
		cancel()
		return nil, err
	}
	c.execution = exec.ID()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-exec.Done():
	case <-timer.C:
		if !detach() { // the client has just left
			<-exec.Done()
		}
	}
	return exec.Execution(), nil
}

// sandboxOf returns the sandbox of that key, which is made when there is none.
func (c *call) sandboxOf(key sandbox.Key) (sandbox.Sandbox, error) {
	return c.api.manager.GetOrCreate(c.r.Context(), key, func(ctx context.Context) (*sandbox.CreateOptions, error) {
		return c.createOptions(ctx, key)
	})
}

// run runs cmd in sb.
func (c *call) run(ctx context.Context, sb sandbox.Sandbox, cmd sandbox.Command) (*sandbox.Execution, error) {
	rec, err := sb.Run(ctx, cmd)
	if err == nil {
		c.execution = rec.ID
	}
	return rec, err
}

// cutAtHead reports whether there was more output than the beginning, which is all that
// stdout and stderr have in the three APIs.
func cutAtHead(rec *sandbox.Execution) bool {
	more := func(out sandbox.Output) bool { return out.Total > int64(len(out.Head)) }
	return more(rec.Stdout) || more(rec.Stderr)
}

// remove removes the sandbox of that key, also when the client leaves meanwhile.
func (c *call) remove(key sandbox.Key) error {
	c.clearWriteDeadline()
	defer c.setWriteDeadline()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), removeTime)
	defer cancel()
	return c.api.manager.Remove(ctx, key)
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
	c.clearDeadlines()
	defer c.setWriteDeadline()
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
