package kubernetes_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

// The manifests have no field that Kubernetes does not know, and the service has the rights
// that one of them gives.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob("deploy/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	accounts, services := make(map[string]bool), make(map[string]bool)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
			object, _, err := decoder.Decode(doc, nil, nil)
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			switch object := object.(type) {
			case *corev1.ServiceAccount:
				accounts[object.Namespace+"/"+object.Name] = true
			case *appsv1.Deployment:
				services[object.Namespace+"/"+object.Spec.Template.Spec.ServiceAccountName] = true
			}
		}
	}
	for account := range services {
		if !accounts[account] {
			t.Errorf("a service uses account %s, which no manifest makes", account)
		}
	}
	if len(services) == 0 {
		t.Error("no manifest runs the service")
	}
}
