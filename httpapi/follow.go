package httpapi

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/internal/text"
)

// pingInterval is below the 15 s that the document promises, so that a ping that
// is late still keeps to them.
const pingInterval = 10 * time.Second

// follow runs cmd in sb and answers with its live output. Until the first event
// its errors are those of the unstreamed call. The command is killed when the
// client leaves.
func (c *call) follow(sb sandbox.Sandbox, cmd sandbox.Command) error {
	if !flushes(c.w) {
		return &Error{Status: http.StatusInternalServerError, Message: "this server cannot stream: one of its layers hides http.Flusher and has no Unwrap"}
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
	defer c.limitWhenOver(exec)()
	f := &follower{events: newEventWriter(c.w, c.rc), output: output}
	err = f.events.event("start", struct {
		ID        string `json:"id"`
		SandboxID string `json:"sandbox_id"`
	}{exec.ID(), sb.ID()})
	if err != nil {
		return err
	}
	// The end of the request ends the command, and so in its turn the output: the
	// reading itself goes on to the last event.
	if err := f.copy(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	rec := exec.Execution()
	if err := c.api.failure(rec); err != nil {
		return errors.Join(err, f.events.event("error", c.api.shape(c.api.explain(err))))
	}
	return f.events.event("exit", rec)
}

// limitWhenOver bounds the sending of what is left once exec is over, also while a
// Write is blocked. The function that it returns must be called before the handler
// returns.
func (c *call) limitWhenOver(exec sandbox.Exec) (stop func()) {
	var watcher sync.WaitGroup
	done := make(chan struct{})
	watcher.Go(func() {
		select {
		case <-exec.Done():
			c.limit()
		case <-done:
		}
	})
	return func() {
		close(done)
		watcher.Wait()
		c.limit()
	}
}

// A follower makes events of output.
type follower struct {
	events *eventWriter
	output sandbox.Stream
	texts  [2]text.Decoder // by source
}

// copy sends all of the output, with pings. An error means that an event could not
// be sent.
func (f *follower) copy(ctx context.Context) error {
	for {
		over, err := f.copyFor(ctx, pingInterval)
		switch {
		case err != nil:
			return err
		case over:
			return f.flush()
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
		chunk, err := f.output.Next(ctx)
		if err != nil {
			// What ended the execution, if not it itself, is in its record.
			return err != ctx.Err(), nil
		}
		if chunk.Gap > 0 {
			if err := f.send(chunk.Source, f.texts[chunk.Source].Flush()); err != nil {
				return false, err
			}
		}
		if err := f.send(chunk.Source, f.texts[chunk.Source].Decode(chunk.Data)); err != nil {
			return false, err
		}
	}
}

// flush sends what the decoders hold back.
func (f *follower) flush() error {
	for _, s := range []sandbox.Source{sandbox.Stdout, sandbox.Stderr} {
		if err := f.send(s, f.texts[s].Flush()); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) send(s sandbox.Source, data string) error {
	if data == "" {
		return nil
	}
	return f.events.event(s.String(), struct {
		Data string `json:"data"`
	}{data})
}
