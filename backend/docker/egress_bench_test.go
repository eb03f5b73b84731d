package docker_test

import (
	"testing"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/docker"
	"github.com/sandbox-go/sandbox/internal/benchtest"
)

// What the way out costs, by both kinds of connection.
func BenchmarkEgress(b *testing.B) {
	for _, connection := range []docker.Connection{docker.ConnectDirect, docker.ConnectEngine} {
		b.Run(string(connection), func(b *testing.B) {
			benchtest.Egress(b, newBackend(b, docker.Options{Connection: connection, Limits: backend.Limits{CPUs: -1}}))
		})
	}
}
