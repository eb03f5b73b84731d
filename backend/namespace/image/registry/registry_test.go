//go:build linux

package registry_test

import (
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	server "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sandbox-go/sandbox/backend/namespace/image"
	"github.com/sandbox-go/sandbox/backend/namespace/image/registry"
)

// A pull fetches the image for this machine with its progress, and nothing twice; what has
// another digest than the registry says is refused.
func TestPull(t *testing.T) {
	var blobs atomic.Int64
	var corrupt atomic.Bool
	handler := server.New(server.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			blobs.Add(1)
			if corrupt.Load() {
				w = &corrupting{ResponseWriter: w}
			}
		}
		handler.ServeHTTP(w, r)
	}))
	defer s.Close()
	img, reference := push(t, strings.TrimPrefix(s.URL, "http://"))

	opts := &registry.Options{Options: image.Options{Dir: filepath.Join(t.TempDir(), "images")}}
	corrupt.Store(true)
	if _, err := registry.Pull(t.Context(), reference, opts); err == nil {
		t.Error("what was changed on the way is unpacked")
	}
	corrupt.Store(false)
	var done, total int64
	opts.Progress = func(d, n int64) {
		if d < done || n < d {
			t.Errorf("%d of %d bytes after %d of %d", d, n, done, total)
		}
		done, total = d, n
	}
	got, err := registry.Pull(t.Context(), reference, opts)
	if err != nil {
		t.Fatal(err)
	}
	if id, _ := img.ConfigName(); got.ID != id.String() {
		t.Errorf("got %s, want %s", got.ID, id)
	}
	if entries, err := os.ReadDir(got.Root); err != nil || len(entries) == 0 {
		t.Errorf("the image has the files %v, %v", entries, err)
	}
	if done == 0 || done != total {
		t.Errorf("%d of %d bytes have come", done, total)
	}
	before := blobs.Load()
	opts.Progress = func(int64, int64) { t.Error("a layer is fetched again") }
	if again, err := registry.Pull(t.Context(), reference, opts); err != nil || again.Root != got.Root {
		t.Errorf("got %+v, %v", again, err)
	}
	if n := blobs.Load() - before; n > 1 { // the configuration
		t.Errorf("%d blobs were fetched again", n)
	}
	if err := got.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(got.Root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	for _, bad := range []string{"UPPER/case", strings.TrimPrefix(s.URL, "http://") + "/no/such:image"} {
		if _, err := registry.Pull(t.Context(), bad, opts); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// push puts an image for this machine beside one for another under one name.
func push(t *testing.T, host string) (v1.Image, string) {
	t.Helper()
	img, err := random.Image(3000, 2)
	if err != nil {
		t.Fatal(err)
	}
	other, err := random.Image(100, 1)
	if err != nil {
		t.Fatal(err)
	}
	index, err := random.Index(1, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	index = mutate.AppendManifests(index,
		mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}},
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}})
	reference := host + "/some/image:latest"
	ref, err := name.ParseReference(reference)
	if err == nil {
		err = remote.WriteIndex(ref, index)
	}
	if err != nil {
		t.Fatal(err)
	}
	return img, reference
}

// A corrupting response has another last byte.
type corrupting struct{ http.ResponseWriter }

func (c *corrupting) Write(p []byte) (int, error) {
	q := append([]byte(nil), p...)
	if len(q) > 0 {
		q[len(q)-1] ^= 1
	}
	return c.ResponseWriter.Write(q)
}
