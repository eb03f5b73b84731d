//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"testing"

	"github.com/sandbox-go/sandbox/internal/benchtest"
)

// What the way out costs.
func BenchmarkEgress(b *testing.B) { benchtest.Egress(b, newBackend(b, nil)) }
