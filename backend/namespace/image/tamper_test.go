//go:build linux

package image_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

func layerDigest(t testing.TB, img v1.Image, n int) v1.Hash {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	h, err := layers[n].Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// tamper changes one byte of a file: of the content of a file in a layer, or, where there is
// none, it adds white space, which JSON may have.
func tamper(t testing.TB, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err == nil {
		if at := bytes.Index(b, []byte("222")); at >= 0 {
			b[at] = '3'
		} else {
			b = append(b, ' ')
		}
		err = os.WriteFile(name, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// tamperBlob tampers with a blob of a layout, which it returns.
func tamperBlob(t testing.TB, dir string, h v1.Hash) string {
	tamper(t, filepath.Join(dir, "blobs", h.Algorithm, h.Hex))
	return dir
}

func write(t testing.TB, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "archive")
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func otherPlatform(t testing.TB) v1.Image {
	t.Helper()
	img := makeImage(t)
	config, err := img.ConfigFile()
	if err == nil {
		config = config.DeepCopy()
		config.Architecture = "s390x"
		img, err = mutate.ConfigFile(img, config)
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}
