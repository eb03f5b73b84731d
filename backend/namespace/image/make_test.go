//go:build linux

package image_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// An entry is one of a layer. One without a type is a file.
type entry struct {
	name    string
	kind    byte
	mode    int64
	link    string
	content string
}

func dir(name string, mode int64) entry { return entry{name: name, kind: tar.TypeDir, mode: mode} }
func file(name, content string) entry   { return entry{name: name, mode: 0o644, content: content} }
func symlink(name, to string) entry {
	return entry{name: name, kind: tar.TypeSymlink, mode: 0o777, link: to}
}
func hardlink(name, to string) entry {
	return entry{name: name, kind: tar.TypeLink, mode: 0o644, link: to}
}

// archive returns a tar archive.
func archive(t testing.TB, entries []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		err := w.WriteHeader(&tar.Header{Name: e.name, Typeflag: e.kind, Mode: e.mode, Linkname: e.link, Size: int64(len(e.content)),
			Uid: 7, Gid: 7, PAXRecords: map[string]string{"SCHILY.xattr.user.overlay.opaque": "y"}})
		if err == nil {
			_, err = io.WriteString(w, e.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// makeImage returns an image of layers.
func makeImage(t testing.TB, layers ...[]entry) v1.Image {
	t.Helper()
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH,
		Config: v1.Config{Env: []string{"PATH=/bin", "FROM_IMAGE=a=b"}, WorkingDir: "/srv", User: "7"},
	})
	for _, entries := range layers {
		if err == nil {
			img, err = mutate.AppendLayers(img, static.NewLayer(archive(t, entries), types.OCIUncompressedLayer))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// layoutOf writes an OCI layout.
func layoutOf(t testing.TB, images ...v1.Image) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "layout")
	path, err := layout.Write(name, empty.Index)
	for _, img := range images {
		if err == nil {
			err = path.AppendImage(img)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// layoutArchiveOf writes an archive of an OCI layout.
func layoutArchiveOf(t testing.TB, img v1.Image) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "oci.tar")
	if out, err := exec.Command("tar", "-cf", name, "-C", layoutOf(t, img), ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return name
}

// dockerSaveOf writes what docker save would.
func dockerSaveOf(t testing.TB, img v1.Image) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "save.tar")
	if err := tarball.WriteToFile(name, nil, img); err != nil {
		t.Fatal(err)
	}
	return name
}

// A countedLayer counts how often its content is read.
type countedLayer struct {
	v1.Layer
	opened *atomic.Int64
}

func (l countedLayer) Uncompressed() (io.ReadCloser, error) {
	l.opened.Add(1)
	return l.Layer.Uncompressed()
}

// A changed image has other layers, or another configuration, than it says.
type changed struct {
	v1.Image
	layers func([]v1.Layer) []v1.Layer
}

func (c *changed) Layers() ([]v1.Layer, error) {
	layers, err := c.Image.Layers()
	return c.layers(layers), err
}

// busyboxImage returns an image with a shell, in two layers.
func busyboxImage(t testing.TB) v1.Image {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("it needs a static busybox, to make an image of")
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return makeImage(t,
		[]entry{dir("bin/", 0o755), {name: "bin/busybox", mode: 0o755, content: string(program)}, file("old", "old")},
		[]entry{symlink("bin/sh", "busybox"), symlink("bin/cat", "busybox"), symlink("bin/ls", "busybox"), file(".wh.old", ""),
			{name: "secret", mode: 0o600, content: "for root\n"}})
}
