package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox/backend"
)

// A link is one connection to the agent of a container.
type link struct {
	*connection
	instance *instance

	// settled is closed when the connection has ended and it is known why, or it
	// cannot be found out in time.
	settled chan struct{}
}

// follow waits for the end of the connection, and then makes another, unless the
// container has ended too. An engine may say for a while that one runs which has
// ended; one that lives counts itself abandoned without a connection.
func (l *link) follow() {
	<-l.Done()
	i := l.instance
	i.unlink(l)
	settle := sync.OnceFunc(func() { close(l.settled) })
	defer settle()
	defer time.AfterFunc(answerTime, settle).Stop()
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		if !i.check(i.alive) || i.isPaused() {
			settle()
		} else if i.reconnect() {
			return
		}
		select {
		case <-time.After(backoff):
		case <-i.alive.Done():
			return
		}
	}
}

// explain adds to an error of the connection why it ended, where that is known.
func (l *link) explain(err error) error {
	select {
	case <-l.Done():
	default:
		if l.instance.isPaused() {
			return fmt.Errorf("%w: %w", l.instance.death("is paused"), err)
		}
		return err
	}
	if refused := (*backend.StartError)(nil); errors.As(err, &refused) {
		return err
	}
	<-l.settled
	if cause := l.instance.why(); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return fmt.Errorf("docker: the agent in %s %s: %w", l.instance.name, l.agentEnding(), err)
}

// agentEnding says how the agent of a container that lives has ended, as far as that is
// known.
func (l *link) agentEnding() string {
	ctx, cancel := context.WithTimeout(l.instance.alive, answerTime)
	defer cancel()
	api, host := l.instance.b.api, l.instance.b.host
	found, err := api.ExecInspect(ctx, l.exec, client.ExecInspectOptions{})
	problem := (*Error)(nil)
	switch {
	case errors.As(engineError(host, err), &problem):
		return "cannot be reached: " + problem.Problem.Error() // the rest is the service's
	case err != nil || found.Running:
		return "cannot be reached" + l.stream.stderrText()
	}
	return ended(found.ExitCode, false) + l.stream.stderrText()
}
