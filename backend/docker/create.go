package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/contained"
)

// startTime bounds what creating a sandbox asks of the engine, pulls aside.
const startTime = time.Minute

// Create makes a container and connects to its agent. An image that is missing is
// pulled first, for as long as the context allows.
func (b *Backend) Create(ctx context.Context, cfg *backend.Config) (backend.Instance, error) {
	if !b.begin() {
		return nil, errClosed
	}
	defer b.done.Done()
	ctx, cancel := b.whileOpen(ctx)
	defer cancel()
	if network := cmp.Or(cfg.Network, b.opts.Network); cfg.Egress != nil && network != noNetwork {
		return nil, fmt.Errorf("docker: %w: with network %q commands have another way out than Config.Egress: leave the network %q",
			errors.ErrUnsupported, network, noNetwork)
	}
	if err := enforced(contained.FillLimits(cfg.Limits, b.opts.Limits), b.engine.limits); err != nil {
		return nil, err
	}
	img, err := b.image(ctx, cmp.Or(cfg.Image, b.opts.Image))
	if err != nil {
		return nil, err
	}
	p, err := agentFor(img)
	if err != nil {
		return nil, err
	}
	bounded, cancel := b.answering(ctx)
	defer cancel()
	i, err := b.create(bounded, cfg, img, p)
	if errors.Is(err, errNoAgent) {
		// Somebody removed the agent's volume after it had been filled.
		b.invalidate(bounded, p)
		i, err = b.create(bounded, cfg, img, p)
	}
	if err != nil {
		return nil, unanswered(bounded, err)
	}
	return i, nil
}

// answering returns a context that bounds calls to an engine that may hang.
func (b *Backend) answering(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, startTime, &Error{NoEngine, b.host, "see whether the engine hangs", nil})
}

// unanswered returns err, or why ctx ended if that was the reason for it.
func unanswered(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// create makes one attempt, which leaves nothing behind when it fails.
func (b *Backend) create(ctx context.Context, cfg *backend.Config, img *image, p *program) (*instance, error) {
	if err := b.ensure(ctx, p, img); err != nil {
		return nil, err
	}
	made, err := b.plan(cfg, img, p, time.Now())
	if err != nil {
		return nil, err
	}
	i, err := b.launch(ctx, cfg, made)
	if err != nil {
		return nil, errors.Join(err, b.discard(ctx, made))
	}
	return i, nil
}

// launch makes and starts a container and connects to its agent. A call to the
// engine is not broken off: what it makes could then not be found and removed.
func (b *Backend) launch(ctx context.Context, cfg *backend.Config, p *plan) (*instance, error) {
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTime)
	defer cancel()
	if _, err := b.api.VolumeCreate(whole, p.ownVolume); err != nil {
		return nil, engineError(b.host, err)
	}
	made, err := b.api.ContainerCreate(whole, p.create)
	if err != nil {
		return nil, b.refusal(p, err)
	}
	b.logWarnings(made.Warnings)
	if err := enforced(p.limits, dropped(made.Warnings)); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	i := b.newInstance(made.ID, p.name, p.volume, p.image.env, cfg, p.network, true)
	if err := b.add(i); err != nil {
		return nil, err
	}
	if err = b.checkRuntime(whole, made.ID); err != nil {
		// It is told as it is.
	} else if _, err = b.api.ContainerStart(whole, made.ID, client.ContainerStartOptions{}); err != nil {
		err = b.refusal(p, err)
	} else {
		err = i.join(ctx, p)
	}
	if err != nil {
		i.End(errDestroyed)
		b.forget(i)
		return nil, err
	}
	return i, nil
}

// join makes the first connection to the agent, and sees whether the limits hold: an
// engine may have dropped them without a word.
func (i *instance) join(ctx context.Context, p *plan) error {
	held, err := i.Connect(ctx)
	switch {
	case errors.Is(err, errUnusable):
		return p.badImage(err)
	case err != nil || i.b.engine.hidden:
		return err
	}
	return enforced(p.limits, held)
}
