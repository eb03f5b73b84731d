package docker

import (
	"context"
	"fmt"
	"strconv"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"
)

// killedExitCode is the exit code of a container whose PID 1 was sent a SIGKILL,
// by a person or by the kernel.
const killedExitCode = 137

// check looks at the container, and notes when it is of no use any more. It
// reports whether the engine answered.
func (i *instance) check(ctx context.Context) bool {
	if i.why() != nil {
		return true
	}
	found, err := i.b.api.ContainerInspect(ctx, i.container, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		i.die(i.death("was removed"))
		return true
	}
	if err != nil {
		return false
	}
	switch state := found.Container.State; {
	case state == nil || state.Running && !state.Paused:
	case state.Paused:
		i.die(i.death("was paused"))
	default:
		if state.OOMKilled {
			i.noteOOM()
		}
		i.die(i.death(ended(state.ExitCode, i.oomKilled())))
	}
	return true
}

// event notes what the engine says about the container.
func (i *instance) event(e events.Message) {
	switch e.Action {
	case events.ActionOOM:
		i.noteOOM()
	case events.ActionPause:
		i.die(i.death("was paused"))
	case events.ActionDie:
		code, _ := strconv.Atoi(e.Actor.Attributes["exitCode"])
		i.die(i.death(ended(code, i.oomKilled())))
	case events.ActionDestroy:
		i.die(i.death("was removed"))
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
