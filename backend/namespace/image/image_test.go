//go:build linux

package image_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"
	"github.com/sandbox-go/sandbox/backend/namespace/image"
)

// store returns options that unpack below a directory of the test's own.
func store(t testing.TB) *image.Options {
	return &image.Options{Dir: filepath.Join(t.TempDir(), "images")}
}

// listing returns what is below a directory: each file's content, each link's target, "/"
// for a directory.
func listing(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch e.Type() {
		case fs.ModeDir:
			found[name] = "/"
		case fs.ModeSymlink:
			target, err := os.Readlink(path)
			found[name] = "-> " + target
			return err
		case 0:
			b, err := os.ReadFile(path)
			found[name] = string(b)
			return err
		default:
			found[name] = e.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// An image is unpacked once, whatever it comes in.
func TestUnpack(t *testing.T) {
	img := makeImage(t, []entry{dir("a", 0o755), file("a/f", "one")}, []entry{file("b", "two")})
	opts := store(t)
	var first *image.Image
	for _, test := range []struct{ name, path string }{
		{"layout", layoutOf(t, img)},
		{"layout-archive", layoutArchiveOf(t, img)},
		{"layout-with-two-names-for-it", layoutOf(t, img, img)},
		{"docker-save", dockerSaveOf(t, img)},
	} {
		t.Run(test.name, func(t *testing.T) {
			alone, err := image.Unpack(t.Context(), test.path, store(t))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"a": "/", "a/f": "one", "b": "two"}, listing(t, alone.Root)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(map[string]string{"PATH": "/bin", "FROM_IMAGE": "a=b"}, alone.Env); diff != "" {
				t.Error(diff)
			}
			got, err := image.Unpack(t.Context(), test.path, opts)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = got
			}
			if diff := cmp.Diff(first, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if id, err := img.ConfigName(); err != nil || first.ID != id.String() {
		t.Errorf("the ID is %s, and the image's %s, %v", first.ID, id, err)
	}
	if err := first.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(first.Root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if err := first.Remove(); err != nil {
		t.Errorf("removed again: %v", err)
	}
}

// Layers are put over one another as the OCI image specification says, and nothing of one
// gets out of the root.
func TestLayers(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "f"), []byte("safe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		layers [][]entry
		want   map[string]string
	}{
		{"replaced", [][]entry{{file("a", "1"), dir("d", 0o755), file("d/x", "1"), symlink("l", "a")}, {file("a", "2"), file("d", "2"), file("l", "2")}},
			map[string]string{"a": "2", "d": "2", "l": "2"}},
		{"directories-merge", [][]entry{{dir("d", 0o755), file("d/x", "1")}, {dir("d", 0o755), file("d/y", "2")}},
			map[string]string{"d": "/", "d/x": "1", "d/y": "2"}},
		{"no-entries-for-parents", [][]entry{{file("a/b/c", "1")}}, map[string]string{"a": "/", "a/b": "/", "a/b/c": "1"}},
		{"whiteout", [][]entry{{file("d/x", "1"), file("d/y", "1"), file("e/f", "1")}, {file("d/.wh.x", ""), file(".wh.e", ""), file(".wh.none", "")}},
			map[string]string{"d": "/", "d/y": "1"}},
		{"whiteout-is-for-lower-layers", [][]entry{{file("x", "1")}, {file("x", "2"), file(".wh.x", "")}}, map[string]string{"x": "2"}},
		{"opaque", [][]entry{{file("d/x", "1"), file("d/s/x", "1")}, {file("d/y", "2"), file("d/.wh..wh..opq", ""), file("d/s/z", "2")}},
			map[string]string{"d": "/", "d/y": "2", "d/s": "/", "d/s/z": "2"}},
		{"opaque-last", [][]entry{{file("d/s/x", "1")}, {file("d/s/z", "2"), file("d/.wh..wh..opq", "")}},
			map[string]string{"d": "/", "d/s": "/", "d/s/z": "2"}},
		{"whiteouts-of-nothing", [][]entry{{file("d/x", "1")}, {file("d/.wh.", ""), file("d/.wh..", ""), file("d/.wh...", ""), file(".wh..wh.plnk", "")}},
			map[string]string{"d": "/", "d/x": "1"}},
		{"hard-link", [][]entry{{file("a", "1"), hardlink("b", "a")}, {file("a", "2"), hardlink("c", "b")}},
			map[string]string{"a": "2", "b": "1", "c": "1"}},
		{"hard-link-through-a-link", [][]entry{{dir("d", 0o755), file("d/a", "1"), symlink("l", "/d"), hardlink("b", "/l/a")}},
			map[string]string{"d": "/", "d/a": "1", "l": "-> /d", "b": "1"}},
		{"absolute-link-to-a-directory", [][]entry{{dir("run", 0o755), symlink("var/run", "/run")}, {file("var/run/x", "1")}},
			map[string]string{"run": "/", "run/x": "1", "var": "/", "var/run": "-> /run"}},
		{"dot-names", [][]entry{{file("./a", "1"), dir("./", 0o700), file("/b", "1"), file("d/../c", "1")}}, map[string]string{"a": "1", "b": "1", "c": "1"}},
		{"names-that-lead-out", [][]entry{{file("../../x", "1"), file("a/../../../y", "1")}}, map[string]string{"x": "1", "y": "1"}},
		{"a-link-that-leads-out", [][]entry{{symlink("l", outside), symlink("up", "../../../../../../.."+outside)}, {file("l/f", "bad"), file("up/g", "bad")}},
			map[string]string{"l": "-> " + outside, "up": "-> ../../../../../../.." + outside}},
		{"a-file-over-a-link-that-leads-out", [][]entry{{symlink("l", outside+"/f")}, {file("l", "mine")}}, map[string]string{"l": "mine"}},
		{"whiteout-through-a-link-that-leads-out", [][]entry{{symlink("l", outside)}, {file("l/.wh.f", ""), file("l/.wh..wh..opq", "")}},
			map[string]string{"l": "-> " + outside}},
		{"devices-and-fifos", [][]entry{{{name: "null", kind: tar.TypeChar, mode: 0o666}, {name: "sda", kind: tar.TypeBlock}, {name: "p", kind: tar.TypeFifo}, file("a", "1")}},
			map[string]string{"a": "1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := store(t)
			got, err := image.UnpackImage(t.Context(), makeImage(t, test.layers...), opts)
			if err != nil {
				t.Fatal(err)
			}
			files := listing(t, got.Root)
			for name := range files { // what stands for the directory outside, inside
				if top, _, _ := strings.Cut(outside[1:], "/"); strings.HasPrefix(name+"/", top+"/") {
					delete(files, name)
				}
			}
			if diff := cmp.Diff(test.want, files); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(map[string]string{"f": "safe"}, listing(t, outside)); diff != "" {
				t.Errorf("outside: %s", diff)
			}
		})
	}
}

// What an image could give away rights with is left out, and the owner's rights are everybody's.
func TestPermissions(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	opts := &image.Options{Dir: filepath.Join(t.TempDir(), "above", "images")}
	got, err := image.UnpackImage(t.Context(), makeImage(t, []entry{
		{name: "suid", mode: 0o6755}, {name: "closed", mode: 0o600}, {name: "none", mode: 0}, dir("private", 0o1700), file("implied/f", ""),
	}), opts)
	if err != nil {
		t.Fatal(err)
	}
	write := fs.FileMode(0o2)
	if os.Geteuid() == 0 {
		write = 0
	}
	for name, want := range map[string]fs.FileMode{
		"../..": fs.ModeDir | 0o711, ".": fs.ModeDir | 0o755, "suid": 0o755 | write, "closed": 0o604 | write, "none": 0o604 | write, "private": fs.ModeDir | 0o705 | write, "implied": fs.ModeDir | 0o755,
	} {
		info, err := os.Lstat(filepath.Join(got.Root, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, want)
		}
		if n, err := unix.Llistxattr(filepath.Join(got.Root, name), nil); n > 0 {
			t.Errorf("%s has extended attributes, %v", name, err)
		}
	}
}

// What is not what it says, or too much, is refused, and leaves nothing.
func TestRefused(t *testing.T) {
	good := makeImage(t, []entry{file("a", "1")}, []entry{file("b", strings.Repeat("2", 9000))})
	for _, test := range []struct {
		name string
		path func(t *testing.T) string
		max  int64
		want string
	}{
		{"layer-of-a-layout", func(t *testing.T) string { return tamperBlob(t, layoutOf(t, good), layerDigest(t, good, 1)) }, 0, "digest"},
		{"manifest-of-a-layout", func(t *testing.T) string { h, _ := good.Digest(); return tamperBlob(t, layoutOf(t, good), h) }, 0, "digest"},
		{"configuration-of-a-layout", func(t *testing.T) string { h, _ := good.ConfigName(); return tamperBlob(t, layoutOf(t, good), h) }, 0, "digest"},
		{"a-blob-is-missing", func(t *testing.T) string {
			dir, h := layoutOf(t, good), layerDigest(t, good, 0)
			os.Remove(filepath.Join(dir, "blobs", h.Algorithm, h.Hex))
			return dir
		}, 0, "no such file"},
		{"docker-save-with-another-layer", func(t *testing.T) string {
			name := dockerSaveOf(t, good)
			tamper(t, name)
			return name
		}, 0, "digest"},
		{"no-archive", func(t *testing.T) string { return write(t, strings.Repeat("x", 2000)) }, 0, "no tar archive"},
		{"gzip", func(t *testing.T) string { return write(t, "\x1f\x8b\x08") }, 0, "gunzip"},
		{"another-archive", func(t *testing.T) string { return write(t, string(archive(t, []entry{file("a", "1")}))) }, 0, "neither"},
		{"a-directory", func(t *testing.T) string { return t.TempDir() }, 0, "index.json"},
		{"nothing", func(*testing.T) string { return "/no/such" }, 0, "no such file"},
		{"configuration-is-a-link", func(t *testing.T) string {
			return write(t, string(archive(t, []entry{
				file("manifest.json", `[{"Config":"c","Layers":[]}]`), symlink("c", "huge"), file("c", "{}"), file("huge", "{}"),
			})))
		}, 0, "too large"},
		{"two-images", func(t *testing.T) string { return layoutOf(t, good, makeImage(t)) }, 0, "2 images"},
		{"too-large", func(t *testing.T) string { return layoutOf(t, good) }, 10_000, "Options.MaxSize"},
		{"archive-too-large", func(t *testing.T) string { return layoutArchiveOf(t, good) }, 10_000, "Options.MaxSize"},
		{"too-many-parents", func(t *testing.T) string {
			return layoutOf(t, makeImage(t, []entry{file(strings.Repeat("d/", 300)+"f", "")}))
		}, 1 << 20, "Options.MaxSize"},
		{"huge-json", func(t *testing.T) string {
			dir := layoutOf(t, good)
			if err := os.Truncate(filepath.Join(dir, "index.json"), 1<<40); err != nil {
				t.Fatal(err)
			}
			return dir
		}, 0, "too large"},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := store(t)
			opts.MaxSize = test.max
			got, err := image.Unpack(t.Context(), test.path(t), opts)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %+v, %v", got, err)
			}
			checkClean(t, opts.Dir)
		})
	}
	t.Run("another-platform", func(t *testing.T) {
		_, err := image.UnpackImage(t.Context(), otherPlatform(t), store(t))
		if err == nil || !strings.Contains(err.Error(), "s390x") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("fewer-layers", func(t *testing.T) {
		_, err := image.UnpackImage(t.Context(), &changed{good, func(l []v1.Layer) []v1.Layer { return l[:1] }}, store(t))
		if err == nil || !strings.Contains(err.Error(), "1 layers") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("another-layer", func(t *testing.T) {
		opts := store(t)
		_, err := image.UnpackImage(t.Context(), &changed{good, func(l []v1.Layer) []v1.Layer {
			return []v1.Layer{l[0], static.NewLayer(archive(t, []entry{file("b", "3")}), types.OCIUncompressedLayer)}
		}}, opts)
		if err == nil || !strings.Contains(err.Error(), "digest") {
			t.Errorf("got %v", err)
		}
		checkClean(t, opts.Dir)
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		opts := store(t)
		if _, err := image.UnpackImage(ctx, good, opts); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		checkClean(t, opts.Dir)
	})
	t.Run("a-store-that-others-can-replace", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := image.UnpackImage(t.Context(), good, &image.Options{Dir: filepath.Join(dir, "images")}); err == nil || !strings.Contains(err.Error(), "only you") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a-store-of-others", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := image.UnpackImage(t.Context(), good, &image.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "only you") {
			t.Errorf("got %v", err)
		}
	})
}

// checkClean checks that there is nothing in a store but locks.
func checkClean(t *testing.T, dir string) {
	t.Helper()
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".lock") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// Who unpacks the same image at the same time waits for the first.
func TestTogether(t *testing.T) {
	var opened atomic.Int64
	img := &changed{makeImage(t, []entry{file("a", "1")}), func(l []v1.Layer) []v1.Layer {
		return []v1.Layer{countedLayer{l[0], &opened}}
	}}
	opts := store(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			got, err := image.UnpackImage(t.Context(), img, opts)
			if err != nil {
				t.Error(err)
				return
			}
			if files := fmt.Sprint(listing(t, got.Root)); files != "map[a:1]" {
				t.Errorf("got %s", files)
			}
		})
	}
	all.Wait()
	if n := opened.Load(); n != 1 {
		t.Errorf("its layer was read %d times", n)
	}
}

// What is in the store's directory and not the store's stays.
func TestStrangersStay(t *testing.T) {
	opts, strangers := store(t), []string{"x.iso.part", "open-source"}
	for _, name := range strangers {
		if err := os.MkdirAll(filepath.Join(opts.Dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(opts.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := image.Unpack(t.Context(), layoutArchiveOf(t, makeImage(t, []entry{file("a", "1")})), opts); err != nil {
		t.Fatal(err)
	}
	for _, name := range strangers {
		if _, err := os.Stat(filepath.Join(opts.Dir, name)); err != nil {
			t.Error(err)
		}
	}
}
