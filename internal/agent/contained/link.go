package contained

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// settleTime is within which it is to be known why a connection has ended.
const settleTime = 5 * time.Second

// How long to wait before what did not work is tried again.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// A link is one connection to the agent of a container.
type link struct {
	*Connection
	instance *Instance

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
	defer time.AfterFunc(settleTime, settle).Stop()
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		if !i.container.Look(i.alive) || i.container.Paused() != nil {
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
		if paused := l.instance.container.Paused(); paused != nil {
			return fmt.Errorf("%w: %w", paused, err)
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
	ctx, cancel := context.WithTimeout(l.instance.alive, settleTime)
	defer cancel()
	return fmt.Errorf("%s: %w", l.Ending(ctx), err)
}
