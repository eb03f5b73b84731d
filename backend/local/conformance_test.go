package local_test

import (
	"testing"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/backendtest"
	"github.com/sandbox-go/sandbox/backend/local"
)

func TestConformance(t *testing.T) { conform(t, nil) }

func TestConformanceProcessGroups(t *testing.T) {
	conform(t, &local.Options{ProcessGroups: true})
}

func conform(t *testing.T, opts *local.Options) {
	backendtest.Run(t, backendtest.Harness{
		New: func(tb testing.TB) backend.Backend {
			b, err := local.New(opts)
			if err != nil {
				tb.Fatal(err)
			}
			return b
		},
		Shell:    true,
		Proc:     true,
		HostProc: true,
		Refused:  &backend.Config{Image: "none"},
	})
}
