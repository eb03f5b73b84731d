package httpapi

import (
	"context"
	"time"

	"github.com/sandbox-go/sandbox"
)

// runIn runs cmd in the sandbox of that key, which is made when there is none. A
// client that leaves cancels the command: it will try again, and two copies must
// not run.
func (c *call) runIn(key sandbox.Key, cmd sandbox.Command) (*sandbox.Execution, error) {
	if err := c.authorize(&cmd); err != nil {
		return nil, err
	}
	c.lift()
	defer c.limit()
	sb, err := c.sandboxOf(key)
	if err != nil {
		return nil, err
	}
	return c.run(c.r.Context(), sb, cmd)
}

// startIn is runIn, but answers after a while with what there is by then, if the
// command still runs. From then on it does not depend on the client any more.
func (c *call) startIn(key sandbox.Key, cmd sandbox.Command, wait time.Duration) (*sandbox.Execution, error) {
	if err := c.authorize(&cmd); err != nil {
		return nil, err
	}
	c.lift()
	defer c.limit()
	sb, err := c.sandboxOf(key)
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
// rooms and agents are sent.
func cutAtHead(rec *sandbox.Execution) bool {
	more := func(out sandbox.Output) bool { return out.Total > int64(len(out.Head)) }
	return more(rec.Stdout) || more(rec.Stderr)
}

// remove removes the sandbox of that key, also when the client leaves meanwhile.
func (c *call) remove(key sandbox.Key) error {
	c.lift()
	defer c.limit()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), removeTime)
	defer cancel()
	return c.api.manager.Remove(ctx, key)
}
