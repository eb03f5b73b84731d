package docker

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent"
)

// A link is one connection to the agent of a container.
type link struct {
	*agent.Conn
	instance *instance

	// settled is closed when the connection has ended and the reason was looked
	// for.
	settled chan struct{}
}

// follow waits for the end of the connection, and sees then whether the
// container has ended too.
func (l *link) follow() {
	<-l.Done()
	l.instance.unlink(l)
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	l.instance.check(ctx)
	close(l.settled)
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
