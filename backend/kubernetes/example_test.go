package kubernetes_test

import (
	"os"

	"sigs.k8s.io/yaml"

	"github.com/sandbox-go/sandbox/backend/kubernetes"
)

// It prints the SandboxTemplate of the warm pool that a service with these options uses.
func ExampleOptions_PodTemplate() {
	opts := &kubernetes.Options{Image: "python:3.14-slim", AgentImage: "registry.example/sandbox-agent", WarmPool: "python"}
	pod, err := opts.PodTemplate()
	if err != nil {
		panic(err)
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "extensions.agents.x-k8s.io/v1beta1",
		"kind":       "SandboxTemplate",
		"metadata":   map[string]any{"name": "python"},
		"spec": map[string]any{
			"podTemplate":             pod,
			"networkPolicyManagement": "Unmanaged", // deploy/networkpolicy.yaml is the one
		},
	})
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(text)
}
