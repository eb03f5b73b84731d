package docker_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/docker"
	"github.com/sandbox-go/sandbox/backend/escapetest"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// attacker is a program that does nothing but attack. The test's own needs libraries that
// the image does not have.
const attacker = `
package main

import "github.com/sandbox-go/sandbox/backend/escapetest"

func main() { escapetest.Main() }
`

// unheld are the attacks that succeed in the default containers of an engine, and why.
var unheld = map[string]map[string]string{
	"docker": {
		"io-uring-is-refused":                   "not held: the default seccomp profile allows io_uring before Docker Engine 25",
		"terminals-take-no-input-from-commands": "not held: the default seccomp profile allows TIOCSTI; a kernel with dev.tty.legacy_tiocsti=0 refuses it",
		"the-hypervisor-is-not-reached":         "not held: the default seccomp profile looks at 64 bits of socket's first argument, the kernel at 32",
	},
	"podman": {
		"handles-are-refused":                   "not held: the default seccomp profile allows pidfd_getfd, which the kernel holds to what one may trace",
		"keyrings-are-refused":                  "not held: the default seccomp profile allows keyctl",
		"namespaces-are-refused":                "not held: the default seccomp profile allows unshare and setns",
		"terminals-take-no-input-from-commands": "not held: the default seccomp profile allows TIOCSTI; a kernel with dev.tty.legacy_tiocsti=0 refuses it",
		"the-hypervisor-is-not-reached":         "not held: the default seccomp profile looks at 64 bits of socket's first argument, the kernel at 32",
	},
}

// engineKind returns "docker" or "podman".
func engineKind(t *testing.T, api *client.Client) string {
	version, err := api.ServerVersion(t.Context(), client.ServerVersionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(version.Components, func(c system.ComponentVersion) bool { return strings.HasPrefix(c.Name, "Podman") }) {
		return "podman"
	}
	return "docker"
}

// TestEscapes attacks from inside.
func TestEscapes(t *testing.T) {
	api := engine(t)
	info := newBackend(t, docker.Options{}).Info()
	if info.DedicatedKernel {
		t.Skip("the attacks are on the machine's own kernel")
	}
	kind := engineKind(t, api)
	t.Setenv("CGO_ENABLED", "0")
	program := programtest.Build(t, attacker)
	escapetest.Run(t, escapetest.Harness{
		New: func(tb testing.TB) backend.Backend {
			b, err := docker.New(context.Background(), &docker.Options{
				Owner: ownerOf(tb), Image: testImage(tb, api), Connection: connection,
				Mounts: []backend.Mount{{Source: program, Target: "/attacker", ReadOnly: true}},
			})
			if err != nil {
				tb.Fatal(err)
			}
			return b
		},
		Program: []string{"/attacker"},
		Column:  kind,
		Skip:    unheld[kind],
	})
}
