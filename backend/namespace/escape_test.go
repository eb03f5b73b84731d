//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"os"
	"testing"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/escapetest"
	"github.com/sandbox-go/sandbox/backend/namespace"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// TestEscapes attacks from inside, as whoever runs the tests.
func TestEscapes(t *testing.T) {
	newBackend(t, nil) // says what the machine lacks
	self := programtest.PublicSelf(t)
	escapetest.Run(t, escapetest.Harness{
		New: func(tb testing.TB) backend.Backend {
			b, err := namespace.New(&namespace.Options{Mounts: []backend.Mount{{Source: self, Target: "/self", ReadOnly: true}}})
			if err != nil {
				tb.Fatal(err)
			}
			return b
		},
		Program: []string{"/self"},
		Column:  column(),
	})
}

// column returns how the matrix calls who runs the tests.
func column() string {
	switch os.Geteuid() {
	case 0:
		return "namespace, as root"
	case withSubs:
		return "namespace, with newuidmap"
	}
	return "namespace, with one number"
}

func TestEscapesOneNumber(t *testing.T) { asOrdinaryUser(t, "^TestEscapes$") }
func TestEscapesSubIDs(t *testing.T)    { asUserWithSubIDs(t, "^TestEscapes$") }
