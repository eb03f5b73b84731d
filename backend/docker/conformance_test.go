package docker_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/backendtest"
	"github.com/sandbox-go/sandbox/backend/docker"
)

func TestConformance(t *testing.T) {
	api := engine(t)
	backendtest.Run(t, backendtest.Harness{
		New: func(tb testing.TB) backend.Backend {
			// The case closes it.
			b, err := docker.New(context.Background(), &docker.Options{Owner: ownerOf(tb), Image: testImage(tb, api)})
			if err != nil {
				tb.Fatal(err)
			}
			return b
		},
		Shell:    true,
		Proc:     true,
		HostProc: strings.HasPrefix(api.DaemonHost(), "unix://"),
		Refused:  &backend.Config{Network: "no-such-network"},
		Echo: func(port int) sandbox.Command {
			return sandbox.Command{Argv: []string{"nc", "-ll", "-p", strconv.Itoa(port), "-e", "cat"}}
		},
		Lose: func(tb testing.TB, _ backend.Backend, id string) {
			if _, err := api.ContainerRemove(context.Background(), "sandbox-"+id, client.ContainerRemoveOptions{Force: true}); err != nil {
				tb.Error(err)
			}
		},
	})
}
