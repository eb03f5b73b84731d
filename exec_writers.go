package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// copyTime is how long Command.Stdout and Stderr have, once the execution was told to
// end, to take what is left of the output.
const copyTime = 5 * time.Second

// A copier copies an execution's output to Command.Stdout and Stderr. What each of
// them gets is always a beginning of the stream.
type copier struct {
	output  *reader
	writers [2]io.Writer // by source; nil takes nothing, or no more
	done    chan struct{}

	mu   sync.Mutex // guards errs
	errs []error    // why writers did not get all
}

// newCopier returns the copier to those writers, or nil when there are none.
func newCopier(o *output, stdout, stderr io.Writer) *copier {
	if stdout == nil && stderr == nil {
		return nil
	}
	return &copier{
		output:  o.openLossless(),
		writers: [2]io.Writer{stdout, stderr},
		done:    make(chan struct{}),
	}
}

// run copies until the output is over, or no writer takes more.
func (c *copier) run() {
	defer close(c.done)
	defer c.output.Close()
	for c.writers[Stdout] != nil || c.writers[Stderr] != nil {
		chunk, err := c.output.Next(context.Background())
		if err != nil {
			return // what ended the execution, if not it itself, is in its record
		}
		w := c.writers[chunk.Source]
		if w == nil {
			continue
		}
		if err := c.write(w, chunk); err != nil {
			c.writers[chunk.Source] = nil
			c.failed(fmt.Errorf("%v: %w", chunk.Source, err))
		}
	}
}

func (c *copier) write(w io.Writer, chunk Chunk) error {
	if chunk.Gap > 0 {
		return chunk.gapError()
	}
	returned := false
	defer func() {
		if !returned { // it has ended this goroutine
			c.failed(fmt.Errorf("%v: its Write has not returned", chunk.Source))
		}
	}()
	var n int
	var err error
	caught := protect(func() { n, err = w.Write(chunk.Data) })
	returned = true
	switch {
	case caught != nil:
		return caught
	case err == nil && n != len(chunk.Data):
		return io.ErrShortWrite
	}
	return err
}

func (c *copier) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

// wait waits until the writers have taken all of an output that is over, for at most
// copyTime once ctx has ended. It returns why they did not.
func (c *copier) wait(ctx context.Context) error {
	if c == nil {
		return nil
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		if !within(copyTime, c.done) {
			c.failed(fmt.Errorf("not all of the output was taken within %v: %w", copyTime, os.ErrDeadlineExceeded))
			c.output.Close() // after the Write at work there is none
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errs...)
}
