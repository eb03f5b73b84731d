package docker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/docker"
)

// Containers of one image without a network, with limits, on an engine that is named.
// What stands in the way says what to do about it.
func ExampleNew() {
	ctx := context.Background()
	b, err := docker.New(ctx, &docker.Options{
		Host:         "unix:///run/docker.sock",
		Owner:        "my-service", // whose containers a restarted service recovers
		Image:        "debian:stable-slim",
		Pull:         docker.PullNever,
		Runtime:      "runsc", // gVisor: a kernel of its own for hostile code
		Limits:       sandbox.Limits{Memory: 512 << 20, CPUs: 0.5, PIDs: 100},
		Mounts:       []sandbox.Mount{{Source: "/srv/models", Target: "/models", ReadOnly: true}},
		ReadOnly:     true,
		AbandonAfter: time.Hour,
	})
	switch {
	case errors.Is(err, docker.NoEngine):
		log.Fatal("start the engine first: ", err)
	case err != nil:
		log.Fatal(err)
	}
	defer b.Close(ctx)

	m := sandbox.NewManager(b, nil)
	defer m.Close(ctx)
	if err := m.Recover(ctx); err != nil {
		log.Print(err) // the others were recovered
	}
	sb, err := m.GetOrCreate(ctx, sandbox.Key{Owner: "ann", Name: "scratch"}, nil)
	if errors.Is(err, docker.NoImage) {
		log.Fatal("docker pull it: ", err)
	}
	if err != nil {
		log.Fatal(err)
	}
	rec, err := sb.Run(ctx, sandbox.Command{Shell: "id -u", Timeout: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(rec.Stdout) // 1000
}
