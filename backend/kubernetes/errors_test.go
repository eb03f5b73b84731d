package kubernetes_test

import (
	"errors"
	"testing"

	"github.com/sandbox-go/sandbox/backend/kubernetes"
)

// A namespace that is not there is said to be what is wrong.
func TestNoNamespace(t *testing.T) {
	if _, err := kubernetes.New(testContext(t), testOptions(t, kubernetes.Options{Namespace: "nowhere"})); !errors.Is(err, kubernetes.BadConfig) {
		t.Errorf("the error: %v", err)
	}
}
