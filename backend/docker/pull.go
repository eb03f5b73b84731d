package docker

import (
	"context"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// A PullPolicy says when an image is fetched from its registry.
type PullPolicy string

const (
	PullMissing PullPolicy = "missing" // when the engine does not have it; the default
	PullAlways  PullPolicy = "always"  // for every sandbox
	PullNever   PullPolicy = "never"   // a missing image is an error
)

// PullProgress is one report of a pull.
type PullProgress struct {
	Image  string
	Layer  string // the layer's id; empty when the report is about the image
	Status string // as the engine words it, as in "Downloading"

	// Current and Total are bytes of the layer; 0 where unknown.
	Current, Total int64
}

// An image is what creating a container must know about one.
type image struct {
	ref  string   // as the user named it
	id   string   // what was found under that name
	arch string   // as Go names it
	env  []string // KEY=VALUE

	// noHealth switches the health check off that the image has, if any: Podman has a
	// timer for each that is given.
	noHealth *container.HealthConfig
}

// image finds the image that ref names, and fetches it as the policy says.
func (b *Backend) image(ctx context.Context, ref string) (*image, error) {
	if b.opts.Pull == PullAlways {
		if err := b.pull(ctx, ref); err != nil {
			return nil, err
		}
	}
	found, err := b.inspect(ctx, ref)
	if errdefs.IsNotFound(err) && b.opts.Pull == PullMissing {
		if err := b.pull(ctx, ref); err != nil {
			return nil, err
		}
		found, err = b.inspect(ctx, ref)
	}
	switch {
	case errdefs.IsNotFound(err):
		return nil, &Error{NoImage, ref, "pull or build it on the engine, or change Options.Pull", err}
	case errdefs.IsInvalidArgument(err), err != nil && strings.Contains(err.Error(), "invalid reference format"):
		return nil, &Error{NoImage, ref, "name an image as in name:tag", err}
	case err != nil:
		return nil, engineError(b.host, err)
	case found.Os != "" && found.Os != "linux":
		return nil, &Error{BadImage, ref, "name an image for linux, not " + found.Os, nil}
	}
	img := &image{ref: ref, id: found.ID, arch: found.Architecture}
	if found.Config != nil {
		img.env = found.Config.Env
		if found.Config.Healthcheck != nil {
			img.noHealth = &container.HealthConfig{Test: []string{"NONE"}}
		}
	}
	return img, nil
}

func (b *Backend) inspect(ctx context.Context, ref string) (client.ImageInspectResult, error) {
	ctx, cancel := b.answering(ctx)
	defer cancel()
	found, err := b.api.ImageInspect(ctx, ref)
	return found, unanswered(ctx, err)
}

// pull fetches ref and reports how it goes.
func (b *Backend) pull(ctx context.Context, ref string) error {
	failed := func(err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if client.IsErrConnectionFailed(err) {
			return engineError(b.host, err)
		}
		return &Error{NoImage, ref, "check its name, and that the engine reaches its registry and may read from it", err}
	}
	resp, err := b.api.ImagePull(ctx, ref, client.ImagePullOptions{})
	if err != nil {
		return failed(err)
	}
	for msg, err := range resp.JSONMessages(ctx) {
		switch {
		case err != nil:
			return failed(err)
		case msg.Error != nil:
			return failed(msg.Error)
		case b.opts.Progress == nil:
			continue
		}
		p := PullProgress{Image: ref, Layer: msg.ID, Status: msg.Status}
		if msg.Progress != nil {
			p.Current, p.Total = msg.Progress.Current, msg.Progress.Total
		}
		b.opts.Progress(p)
	}
	return nil
}
