package contained_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
	"github.com/sandbox-go/sandbox/internal/agent/contained"
)

// A container is one that is paused until an attempt to connect has found it so.
type container struct {
	attempts int
	paused   error
}

var errPaused = errors.New("it is paused")

func (c *container) Dial(context.Context, bool, agentclient.Options) (*contained.Connection, error) {
	c.attempts++
	err := c.paused
	c.paused = nil
	if err == nil {
		err = errNoAgent
	}
	return nil, err
}

var errNoAgent = errors.New("there is no agent")

func (*container) Look(context.Context) bool { return true }
func (c *container) Paused() error           { return c.paused }
func (*container) Brief(error) string        { return "" }

// A container that goes on right after an attempt has found it paused is tried again;
// another error is not.
func TestGoesOnAfterAnAttempt(t *testing.T) {
	c := &container{paused: errPaused}
	i := contained.New(contained.Options{Container: c, Background: new(sync.WaitGroup)})
	if _, err := i.Connect(t.Context()); !errors.Is(err, errNoAgent) || c.attempts != 2 {
		t.Errorf("got %v after %d attempts, want %v after 2", err, c.attempts, errNoAgent)
	}
}
