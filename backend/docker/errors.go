package docker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// A Problem is what stands in the way of a sandbox. It is an error, so that
// errors.Is(err, docker.NoImage) asks for it.
type Problem string

const (
	NoEngine     Problem = "no engine answers"
	NoPermission Problem = "no permission to use the engine"
	OldEngine    Problem = "engine too old"
	BadHost      Problem = "bad engine address"
	NoImage      Problem = "no such image"
	BadImage     Problem = "image of no use"
	NoRuntime    Problem = "no such runtime"
	NoNetwork    Problem = "no such network"
	NameTaken    Problem = "name taken"
	BadMount     Problem = "bad mount"
	NoLimit      Problem = "limit not enforced"
	NoDirect     Problem = "no direct connection"
)

// Error returns the problem in words.
func (p Problem) Error() string { return string(p) }

// An Error says what stands in the way of a sandbox, and what to do about it.
type Error struct {
	Problem Problem

	// Name is what the problem is about: the engine's address, the image, the
	// runtime, the network, the container.
	Name string

	// Advice is what to do about it, in words.
	Advice string

	// Err is what the engine or the connection to it said; it may be nil.
	Err error
}

// Error returns the name, the problem, the advice and the cause.
func (e *Error) Error() string {
	msg := "docker: " + string(e.Problem) + ": " + e.Name + ": " + e.Advice
	if e.Err != nil {
		msg += " (" + e.Err.Error() + ")"
	}
	return msg
}

// Unwrap returns the problem and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Problem}
	}
	return []error{e.Problem, e.Err}
}

// engineError names the problem when err is about the way to the engine, and
// returns it as it is otherwise.
func engineError(host string, err error) error {
	switch {
	case err == nil:
		return nil
	case !client.IsErrConnectionFailed(err):
		return err
	case strings.Contains(err.Error(), "permission denied"):
		return &Error{NoPermission, host, "run the service as a user of the socket's group, usually docker", err}
	default:
		return &Error{NoEngine, host, "start the engine, or say where it is with DOCKER_HOST or Options.Host", err}
	}
}

// errNoAgent: the container was made, but the agent is not where it should be.
var errNoAgent = errors.New("docker: the agent is missing in the container")

// badImage is the error of an image whose directories commands cannot use.
func (p *plan) badImage(err error) error {
	return &Error{BadImage, p.image.ref, "let its /workspace, /home/user and /tmp be directories, or leave them out", err}
}

// nameTaken reports whether err is that a container has the name already. Podman
// before 5 has no status code for it.
func nameTaken(err error) bool {
	msg := strings.ToLower(err.Error())
	return strings.Contains(msg, "name") && (errdefs.IsConflict(err) || strings.Contains(msg, "in use"))
}

// noContainer reports whether err is that a container is missing. Podman's error is an
// internal one where it is removed meanwhile.
func noContainer(err error) bool {
	return errdefs.IsNotFound(err) || errdefs.IsInternal(err) && strings.Contains(err.Error(), "no such container")
}

// refusal names the problem when the engine refuses to make or start a container
// for one that the user can mend. The API has no codes for them.
func (b *Backend) refusal(p *plan, err error) error {
	msg := strings.ToLower(err.Error())
	switch {
	case strings.Contains(msg, agentPath):
		return fmt.Errorf("%w: %w", errNoAgent, err)
	case nameTaken(err):
		return &Error{NameTaken, p.name, "remove the container of that name", err}
	case strings.Contains(msg, "invalid runtime name"), strings.Contains(msg, "unknown runtime"):
		return &Error{NoRuntime, b.opts.Runtime, "install it and name it in the engine's daemon.json, or change Options.Runtime", err}
	case strings.Contains(msg, "network") && strings.Contains(msg, "not found"):
		return &Error{NoNetwork, p.network, "create it, or change Options.Network or Config.Network", err}
	case errdefs.IsNotFound(err) && strings.Contains(msg, "no such image"):
		return &Error{NoImage, p.image.ref, "it was removed meanwhile; try again", err}
	case strings.Contains(msg, "bind source path does not exist"),
		strings.Contains(msg, "invalid mount config"), strings.Contains(msg, "duplicate mount point"),
		strings.Contains(msg, "duplicate mount destination"):
		return &Error{BadMount, p.name, "change Options.Mounts or Config.Mounts", err}
	case strings.Contains(msg, "not a directory"), strings.Contains(msg, "is not directory"):
		return p.badImage(err)
	}
	return engineError(b.host, err)
}
