package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/sandbox-go/sandbox/internal/host"
)

// maxJSON bounds a manifest, an index or a configuration, in bytes: they are read into memory.
const maxJSON = 8 << 20

// open opens the image at name. Done removes what that has put on the disk.
func (s *store) open(ctx context.Context, name string) (_ v1.Image, done func(), err error) {
	none := func() {}
	info, err := os.Stat(name)
	if err != nil {
		return nil, none, err
	}
	if info.IsDir() {
		img, err := fromLayout(ctx, name)
		return img, none, err
	}
	sizes, err := contents(ctx, name)
	if err != nil {
		return nil, none, err
	}
	if _, ok := sizes["manifest.json"]; ok {
		img, err := fromDockerSave(name, sizes)
		return img, none, err
	}
	if _, ok := sizes["index.json"]; !ok {
		return nil, none, errors.New("it is neither what docker save writes nor an OCI layout: it has no manifest.json and no index.json")
	}
	base, err := host.NewBase("image", s.dir, false, nil)
	if err != nil {
		return nil, none, err
	}
	done = func() { base.Remove() }
	var img v1.Image
	if err = unpackLayout(ctx, name, base.Path, &budget{left: s.maxSize}); err == nil {
		img, err = fromLayout(ctx, base.Path)
	}
	if err != nil {
		done()
		return nil, none, err
	}
	return img, done, nil
}

// walk calls each for all files of an archive.
func walk(ctx context.Context, name string, each func(h *tar.Header, content io.Reader) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	magic := make([]byte, 2)
	if _, err := io.ReadFull(f, magic); err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return errors.New("it is compressed: unpack it with gunzip first")
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for r := tar.NewReader(f); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is no tar archive: %w", err)
		}
		if err := each(h, r); err != nil {
			return err
		}
	}
}

// contents returns the sizes of an archive's files. What is not a regular file has the
// greatest, since the library follows links and reads the holes of sparse files.
func contents(ctx context.Context, name string) (map[string]int64, error) {
	sizes := make(map[string]int64)
	return sizes, walk(ctx, name, func(h *tar.Header, _ io.Reader) error {
		name, size := path.Clean(h.Name), h.Size
		if h.Typeflag != tar.TypeReg {
			size = math.MaxInt64
		}
		sizes[name] = max(sizes[name], size) // the library takes the first of a name
		return nil
	})
}

// fromDockerSave opens an archive by docker save, which holds files of those sizes.
func fromDockerSave(name string, sizes map[string]int64) (v1.Image, error) {
	if sizes["manifest.json"] > maxJSON {
		return nil, errors.New("its manifest.json is too large")
	}
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(name) })
	if err != nil {
		return nil, err
	}
	if len(manifest) != 1 {
		return nil, fmt.Errorf("it has %d images, and must have one", len(manifest))
	}
	if size, ok := sizes[path.Clean(manifest[0].Config)]; !ok || size > maxJSON {
		return nil, errors.New("its configuration is missing, or too large")
	}
	img, err := tarball.ImageFromPath(name, nil)
	if err != nil {
		return nil, err
	}
	// The file's name is its digest, after "blobs/sha256/" or before ".json".
	said := strings.TrimSuffix(path.Base(manifest[0].Config), ".json")
	raw, err := img.RawConfigFile()
	if err != nil {
		return nil, err
	}
	if got, _, _ := v1.SHA256(bytes.NewReader(raw)); digest.MatchString(said) && got.Hex != said {
		return nil, fmt.Errorf("its configuration has the digest %s, and not %s", got.Hex, said)
	}
	return img, nil
}

var (
	digest = regexp.MustCompile(`^[0-9a-f]{64}$`)
	blob   = regexp.MustCompile(`^blobs/sha256/[0-9a-f]{64}$`)
)

// unpackLayout writes the files of an archive of an OCI layout to dir.
func unpackLayout(ctx context.Context, name, dir string, left *budget) error {
	if err := os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o700); err != nil {
		return err
	}
	return walk(ctx, name, func(h *tar.Header, content io.Reader) error {
		file := path.Clean(h.Name)
		if h.Typeflag != tar.TypeReg || file != "index.json" && file != "oci-layout" && !blob.MatchString(file) {
			return nil
		}
		if err := left.spend(entrySize); err != nil {
			return err
		}
		return writeFile(os.Create, filepath.Join(dir, file), &spender{ctx, content, left})
	})
}

// writeFile makes a file, by create, of what a reader has.
func writeFile(create func(string) (*os.File, error), name string, content io.Reader) error {
	f, err := create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// fromLayout returns the image of an OCI layout that is for this machine.
func fromLayout(ctx context.Context, dir string) (v1.Image, error) {
	if err := small(filepath.Join(dir, "index.json")); err != nil {
		return nil, err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	var found []v1.Image
	if err := collect(ctx, dir, index, make(map[v1.Hash]bool), &found); err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("it has %d images for linux/%s, and must have one", len(found), runtime.GOARCH)
	}
	return found[0], nil
}

// collect adds the images of an index that can be for this machine, but for those that were
// seen.
func collect(ctx context.Context, dir string, index v1.ImageIndex, seen map[v1.Hash]bool, found *[]v1.Image) error {
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, d := range manifest.Manifests {
		if d.Platform != nil && (d.Platform.OS != "linux" || d.Platform.Architecture != runtime.GOARCH) {
			continue
		}
		if !d.MediaType.IsIndex() && !d.MediaType.IsImage() {
			continue
		}
		if seen[d.Digest] {
			continue
		}
		seen[d.Digest] = true
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := verify(dir, d.Digest); err != nil {
			return err
		}
		if d.MediaType.IsIndex() {
			inner, err := index.ImageIndex(d.Digest)
			if err == nil {
				err = collect(ctx, dir, inner, seen, found)
			}
			if err != nil {
				return err
			}
			continue
		}
		img, err := index.Image(d.Digest)
		if err != nil {
			return err
		}
		m, err := img.Manifest()
		if err != nil {
			return err
		}
		if !m.Config.MediaType.IsConfig() { // an attestation, or what is no image
			continue
		}
		if err := verify(dir, m.Config.Digest); err != nil {
			return err
		}
		*found = append(*found, img)
	}
	return nil
}

// verify checks a manifest, an index or a configuration of a layout.
func verify(dir string, h v1.Hash) error {
	name := filepath.Join(dir, "blobs", h.Algorithm, h.Hex)
	if err := small(name); err != nil {
		return err
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if got, _, err := v1.SHA256(bytes.NewReader(raw)); err != nil || got != h {
		return fmt.Errorf("what it has as %s has the digest %s", h, got)
	}
	return nil
}

// small checks that a file can be read into memory.
func small(name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("it has no %s", filepath.Base(name))
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Size() > maxJSON:
		return fmt.Errorf("its %s is too large, or no file", filepath.Base(name))
	}
	return nil
}
