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
	info := newBackend(t, docker.Options{}).Info()
	backendtest.Run(t, backendtest.Harness{
		New: func(tb testing.TB) backend.Backend {
			// The case closes it.
			b, err := docker.New(context.Background(), &docker.Options{Owner: ownerOf(tb), Image: testImage(tb, api), Connection: connection})
			if err != nil {
				tb.Fatal(err)
			}
			return b
		},
		Shell:    true,
		Proc:     true,
		HostProc: strings.HasPrefix(api.DaemonHost(), "unix://") && !info.DedicatedKernel,
		Skip:     faultsOf(info),
		Refused:  &backend.Config{Network: "no-such-network"},
		Echo: func(port int) sandbox.Command {
			return sandbox.Command{Argv: []string{"nc", "-ll", "-p", strconv.Itoa(port), "-e", "cat"}}
		},
		Connect: func(host string, port int) sandbox.Command {
			return sandbox.Command{Argv: []string{"nc", host, strconv.Itoa(port)}}
		},
		Lose: func(tb testing.TB, _ backend.Backend, id string) {
			if _, err := api.ContainerRemove(context.Background(), "sandbox-"+id, client.ContainerRemoveOptions{Force: true}); err != nil {
				tb.Error(err)
			}
		},
	})
}

// faultsOf returns the cases that gVisor's kernel does not pass, as of its release of
// 29 July 2024.
func faultsOf(info backend.Info) map[string]string {
	if !isGVisor(info) {
		return nil
	}
	return map[string]string{
		"a-hostile-archive-is-refused": "gVisor's open follows links in spite of O_NOFOLLOW",
		"a-raw-terminal-passes-all":    "gVisor's terminals lose input that is not read yet",
		"a-terminal-controls":          "gVisor's /dev/tty cannot be opened",
		"a-terminal-has-a-size":        "gVisor sends no SIGWINCH",
		"the-service-is-not-seen":      "gVisor lists the numbers of any process's descriptors",
	}
}

// isGVisor reports whether commands have gVisor's kernel. A virtual machine tells of
// kills for memory.
func isGVisor(info backend.Info) bool { return info.DedicatedKernel && !info.OOM }
