package main

import (
	"context"
	"errors"
	"log"
	"slices"
	"strconv"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/docker"
	"github.com/sandbox-go/sandbox/backend/local"
	"github.com/sandbox-go/sandbox/backend/namespace"
)

const (
	shell      = "echo hi"
	streamSize = 64 << 20
)

var zeros = []string{"head", "-c", strconv.Itoa(streamSize), "/dev/zero"}

// A place is where commands run, and what can be done there.
type place struct {
	name string

	echo   task // runs shell
	call   task // runs it by a call of the HTTP API
	stream task // reads what zeros writes as it comes
	write  task // writes a file of 1 KiB
	read   task // reads it
	create task // makes a sandbox and runs shell in it; its end does not count
}

// open returns the places that can be had here, the first of which is os/exec, and what
// ends them.
func open(ctx context.Context, image string) (places []place, end func() error, err error) {
	var ends []func() error
	end = func() (err error) {
		for _, end := range slices.Backward(ends) {
			err = errors.Join(err, end())
		}
		return err
	}
	add := func(name string, open func() (place, func() error, error)) {
		p, endPlace, err := open()
		if err != nil {
			log.Printf("%s is left out: %v", name, err)
			return
		}
		p.name = name
		places, ends = append(places, p), append(ends, endPlace)
	}
	unlimited := sandbox.Limits{CPUs: -1} // as the others here are
	var sb sandbox.Sandbox
	add("os/exec", host)
	add("local", func() (place, func() error, error) {
		b, err := local.New(nil)
		if err != nil {
			return place{}, nil, err
		}
		p, _, end, err := inSandbox(ctx, b)
		return p, end, err
	})
	add("namespace", func() (place, func() error, error) {
		b, err := namespace.New(&namespace.Options{Limits: unlimited})
		if err != nil {
			return place{}, nil, err
		}
		p, _, end, err := inSandbox(ctx, b)
		return p, end, err
	})
	add("bubblewrap", bubblewrap)
	for _, way := range []docker.Connection{docker.ConnectDirect, docker.ConnectEngine} {
		add("docker, "+string(way), func() (p place, end func() error, err error) {
			b, err := docker.New(ctx, &docker.Options{Image: image, Limits: unlimited, Connection: way})
			if err != nil {
				return place{}, nil, err
			}
			p, sb, end, err = inSandbox(ctx, b)
			return p, end, err
		})
	}
	if sb != nil {
		add("docker exec", func() (place, func() error, error) { return dockerExec(ctx, "sandbox-"+sb.ID()) })
	}
	return places, end, nil
}
