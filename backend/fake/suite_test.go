package fake_test

import (
	"testing"

	"github.com/sandbox-go/sandbox/backend/backendtest"
	"github.com/sandbox-go/sandbox/internal/faketest"
)

func TestConformance(t *testing.T) { backendtest.Run(t, faketest.Harness()) }
