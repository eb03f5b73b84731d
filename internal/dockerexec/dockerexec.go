// Package dockerexec runs commands in containers the way that the engine's API has for it,
// for benchmarks to compare with.
package dockerexec

import (
	"context"
	"io"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
)

// Run runs a command to its end, and reads its output.
func Run(ctx context.Context, api *client.Client, container string, argv []string) error {
	made, err := api.ExecCreate(ctx, container, client.ExecCreateOptions{
		User: "1000", AttachStdout: true, AttachStderr: true, Cmd: argv,
	})
	if err != nil {
		return err
	}
	attached, err := api.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return err
	}
	defer attached.Close()
	if _, err := stdcopy.StdCopy(io.Discard, io.Discard, attached.Reader); err != nil {
		return err
	}
	_, err = api.ExecInspect(ctx, made.ID, client.ExecInspectOptions{})
	return err
}
