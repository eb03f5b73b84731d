package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox/internal/dockerexec"
)

// host runs commands with os/exec, and answers no calls: what a call costs is beside what
// a command alone costs.
func host() (place, func() error, error) {
	run := program("sh", "-c", shell)
	return place{echo: run, call: run, stream: timed(pipe)}, func() error { return nil }, nil
}

// pipe reads what a program writes with os/exec.
func pipe(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, zeros[0], zeros[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	// Reading and writing, as a sandbox's reader does: no other way of io.Copy.
	_, err = io.Copy(struct{ io.Writer }{io.Discard}, out)
	return errors.Join(err, cmd.Wait())
}

// bubblewrap runs each command in a sandbox of its own, which is how it is used: the first
// result of one is what any costs.
func bubblewrap() (place, func() error, error) {
	version := firstLine("bwrap", "--version")
	if version == "" {
		return place{}, nil, exec.ErrNotFound
	}
	fmt.Println(version + ".")
	argv := []string{"bwrap", "--unshare-all", "--die-with-parent", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"}
	for _, dir := range []string{"/bin", "/etc", "/lib", "/lib64", "/usr"} { // as backend/namespace has them
		argv = append(argv, "--ro-bind-try", dir, dir)
	}
	run := program(append(argv, "sh", "-c", shell)...)
	return place{echo: run, create: run}, func() error { return nil }, nil
}

// program is a task of running a program that must print what shell does.
func program(argv ...string) task {
	return timed(func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil || string(out) != "hi\n" {
			return fmt.Errorf("%s: %v: %q, %q", argv[0], err, out, &stderr)
		}
		return nil
	})
}

// dockerExec runs commands in a container the way that the engine's API has for it.
func dockerExec(ctx context.Context, container string) (place, func() error, error) {
	api, err := client.New(client.FromEnv)
	if err != nil {
		return place{}, nil, err
	}
	version, err := api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return place{}, nil, errors.Join(err, api.Close())
	}
	fmt.Printf("Docker %s.\n", version.Version)
	run := func(argv ...string) task {
		return timed(func(ctx context.Context) error { return dockerexec.Run(ctx, api, container, argv) })
	}
	return place{echo: run("sh", "-c", shell), stream: run(zeros...)}, api.Close, nil
}
