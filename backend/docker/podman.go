package docker

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/moby/moby/client"
)

// This file has what Podman, which speaks the API of a Docker engine, does in its
// own way, and cannot be told by trying.

// What Podman calls by names of its own: states of a container, and events. It sends
// "died" as "die" to whoever asks for "died", and nothing to who asks for "die".
const (
	podmanInitialized = "initialized"
	podmanStopping    = "stopping"
	podmanDied        = "died"
	podmanRemove      = "remove"
)

// recognize sees whether an answer is Podman's. What else tells takes it seconds, since
// it asks the machine's packages for it.
func (b *Backend) recognize(answer *http.Response) {
	if answer.Header.Get("Libpod-Api-Version") != "" {
		b.podman.Store(true)
	}
}

// checkSource refuses a mount whose source is missing on this machine, where Podman
// would make it.
func (b *Backend) checkSource(source string) error {
	if !b.podman.Load() || !strings.HasPrefix(b.host, "unix://") {
		return nil
	}
	if _, err := os.Stat(source); errors.Is(err, fs.ErrNotExist) {
		return &Error{BadMount, source, "make it first, or change Options.Mounts or Config.Mounts", err}
	}
	return nil
}

// checkRuntime refuses a container whose engine took no notice of the runtime that
// was asked for.
func (b *Backend) checkRuntime(ctx context.Context, id string) error {
	if b.opts.Runtime == "" {
		return nil
	}
	made, err := b.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return engineError(b.host, err)
	}
	if made.Container.HostConfig != nil && made.Container.HostConfig.Runtime == b.opts.Runtime {
		return nil
	}
	info, err := b.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return engineError(b.host, err)
	}
	if info.Info.DefaultRuntime == b.opts.Runtime {
		return nil
	}
	return &Error{NoRuntime, b.opts.Runtime, "make it the engine's default, which this engine uses whatever is asked for, and leave Options.Runtime empty", errors.ErrUnsupported}
}
