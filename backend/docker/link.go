package docker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
)

// A link is one connection to the agent of a container.
type link struct {
	*agentclient.Conn
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
	return err
}
