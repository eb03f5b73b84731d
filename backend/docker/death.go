package docker

import (
	"context"
	"fmt"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"
)

// killedExitCode is the exit code of a container whose PID 1 was sent a SIGKILL,
// by a person or by the kernel.
const killedExitCode = 137

// check looks at the container, and notes when it is of no use any more. It
// reports whether the engine answered.
func (i *instance) check(ctx context.Context) bool {
	if i.Alive().Err() != nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	found, err := i.b.api.ContainerInspect(ctx, i.container, client.ContainerInspectOptions{})
	if noContainer(err) {
		i.Die(i.death("was removed"))
		return true
	}
	if err != nil {
		return false
	}
	switch state := found.Container.State; {
	case state == nil || state.Running || state.Paused:
		i.setPaused(state != nil && state.Paused)
	case state.Status == container.StateCreated, state.Status == podmanInitialized: // Create will start it
	case state.Status == podmanStopping: // it is not over yet
	default:
		if state.OOMKilled {
			i.noteOOM()
		}
		i.Die(i.death(ended(state.ExitCode, i.oomKilled())))
	}
	return true
}

// event notes what the engine says about the container.
func (i *instance) event(e events.Message) {
	switch e.Action {
	case events.ActionOOM:
		i.noteOOM()
	case events.ActionPause, events.ActionUnPause:
		i.setPaused(e.Action == events.ActionPause)
	case events.ActionDie:
		code, _ := strconv.Atoi(e.Actor.Attributes["exitCode"])
		i.Die(i.death(ended(code, i.oomKilled())))
	case events.ActionDestroy, podmanRemove:
		i.Die(i.death("was removed"))
	}
}

func (i *instance) death(how string) error {
	return fmt.Errorf("docker: container %s %s", i.name, how)
}

// ended says how a container with that exit code ended.
func ended(code int, oom bool) string {
	switch {
	case code == killedExitCode && oom:
		return "was killed, and the kernel has killed for memory in it"
	case code == killedExitCode:
		return "was killed"
	default:
		return fmt.Sprintf("ended with exit code %d", code)
	}
}

// setPaused notes whether the container is paused. It is not gone then: its
// commands go on when somebody unpauses it, and their clock goes on meanwhile.
func (i *instance) setPaused(paused bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.paused = paused
}

func (i *instance) isPaused() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.paused
}

func (i *instance) noteOOM() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.oom = true
}

func (i *instance) oomKilled() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.oom
}
