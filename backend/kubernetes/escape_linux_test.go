package kubernetes_test

import (
	"context"
	"os"
	"runtime"
	"testing"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/escapetest"
	"github.com/sandbox-go/sandbox/backend/kubernetes"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// attacker is a program that does nothing but attack.
const attacker = `
package main

import "github.com/sandbox-go/sandbox/backend/escapetest"

func main() { escapetest.Main() }
`

// unheld are the attacks that succeed in the pods of the test cluster, and why.
var unheld = map[string]string{
	"io-uring-is-refused":                   "not held: the runtime's default seccomp profile allows io_uring before containerd 2.0",
	"other-networks-are-not-reached":        "not held: a pod has the cluster's network, unless a NetworkPolicy takes it away",
	"terminals-take-no-input-from-commands": "not held: the runtime's default seccomp profile allows TIOCSTI; a kernel with dev.tty.legacy_tiocsti=0 refuses it",
	"the-hypervisor-is-not-reached":         "not held: the runtime's default seccomp profile allows AF_VSOCK before containerd 1.7; a later one looks at 64 bits of socket's first argument, the kernel at 32",
}

// TestEscapes attacks from inside.
func TestEscapes(t *testing.T) {
	c := testCluster(t)
	t.Setenv("CGO_ENABLED", "0")
	program, err := os.ReadFile(programtest.Build(t, attacker))
	if err != nil {
		t.Fatal(err)
	}
	agent, err := kubernetes.Agent(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	files := installers(busyboxProgram(t), agent)
	files["attacker"] = program
	image := c.image(t, "attacker", files)
	for _, level := range []kubernetes.PodSecurity{kubernetes.Restricted, kubernetes.Baseline} {
		t.Run(string(level), func(t *testing.T) {
			namespace := c.namespace
			if level == kubernetes.Baseline {
				namespace = c.allowing(t, level)
			}
			escapetest.Run(t, escapetest.Harness{
				New: func(tb testing.TB) backend.Backend {
					b, err := kubernetes.New(context.Background(), testOptions(tb, kubernetes.Options{
						Namespace: namespace, PodSecurity: level, Image: image,
					}))
					if err != nil {
						tb.Fatal(err)
					}
					return b
				},
				Program: []string{"/attacker"},
				Column:  "kubernetes, " + string(level),
				Skip:    unheld,
			})
		})
	}
}
