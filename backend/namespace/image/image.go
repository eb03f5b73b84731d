// Package image makes directories of container images, to be the roots of sandboxes
// ([namespace.Options.Root]): of an OCI layout, an archive of one, or what docker save
// writes. What a registry has, package registry pulls.
//
//	img, err := image.Unpack(ctx, "debian.tar", nil)
//	...
//	b, err := namespace.New(&namespace.Options{Root: img.Root, Env: img.Env})
//
// An image is unpacked once, however many programs and sandboxes use it, and shown to all
// of them read-only; what commands write with namespace.Options.Overlay is elsewhere. The package is a
// module of its own, so that only its users build what reads images.
//
// All files belong to whoever unpacks, and a sandbox's commands may read and execute what
// their owner in the image may. Set-user-ID bits, extended attributes (so capabilities too),
// devices, FIFOs and sockets are left out. Symbolic links stay as they are; inside a sandbox
// they cannot lead out of it. What an image has in /dev, /home, /proc, /run, /sys, /tmp and
// /workspace is hidden by the sandbox's own; with namespace.Options.Overlay, what it has in
// /home, /run and /sys is seen.
//
// Of an image's configuration only its environment is used. Commands start in /workspace, as
// the sandbox's user, so its working directory, its user, its entry point, its volumes and
// its ports have no meaning.
//
// [namespace.Options.Root]: https://pkg.go.dev/github.com/sandbox-go/sandbox/backend/namespace#Options
package image

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// An Image is one that is unpacked.
type Image struct {
	// ID is the digest of the image's configuration, as "sha256:…", which has those of all its
	// layers: what docker image ls calls its ID where it does not keep images in containerd.
	ID string

	// Root is the directory of its files. Nobody may write to it.
	Root string

	// Env is the environment that the image gives to its commands.
	Env map[string]string
}

// Options say where images are unpacked, and what is too much. Nil and the zero value are the
// defaults.
type Options struct {
	// Dir is the directory of all unpacked images. It must be the caller's own, in directories
	// that are the caller's or root's, and is created if it does not exist. Where the caller is
	// not root it is closed to others (mode 0700), since files of images may be writable for all. Empty is /var/cache/sandbox/images for root, and for others
	// sandbox/images in os.UserCacheDir(). Root's can be passed by everybody on the machine,
	// as its sandboxes' users must, and not be listed.
	Dir string

	// MaxSize bounds what an image takes on the disk, in bytes: each file counts as its
	// size and 4 KiB. 0 is 16 GiB; negative is no bound.
	MaxSize int64
}

const defaultMaxSize = 16 << 30

// Unpack unpacks the image at path, which is the directory of an OCI image layout or an
// archive, by docker save or of an OCI layout, that is not compressed. It must hold one image
// for this machine's platform. Nil opts are the defaults. What is unpacked already, by anybody
// who uses the same directory, is not unpacked again. Whatever does not have the digest that
// the image says is an error, and so is what is larger than Options.MaxSize; then nothing is
// left. The context covers the unpacking. It may be called concurrently.
func Unpack(ctx context.Context, path string, opts *Options) (*Image, error) {
	s, err := newStore(opts)
	if err != nil {
		return nil, err
	}
	img, done, err := s.open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("image: %s: %w", path, err)
	}
	defer done()
	unpacked, err := s.unpack(ctx, img)
	if err != nil {
		return nil, fmt.Errorf("image: %s: %w", path, err)
	}
	return unpacked, nil
}

// UnpackImage is Unpack of an image that a package of go-containerregistry has opened.
func UnpackImage(ctx context.Context, img v1.Image, opts *Options) (*Image, error) {
	s, err := newStore(opts)
	if err != nil {
		return nil, err
	}
	unpacked, err := s.unpack(ctx, img)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	return unpacked, nil
}

// unpack unpacks an image unless it is there.
func (s *store) unpack(ctx context.Context, img v1.Image) (*Image, error) {
	id, config, err := configuration(img)
	if err != nil {
		return nil, err
	}
	root, err := s.add(ctx, id.Hex, func(dir string) error {
		layers, err := img.Layers()
		if err != nil {
			return err
		}
		if len(layers) != len(config.RootFS.DiffIDs) {
			return fmt.Errorf("it has %d layers, and its configuration %d", len(layers), len(config.RootFS.DiffIDs))
		}
		left := &budget{left: s.maxSize}
		for i, layer := range layers {
			if err := apply(ctx, dir, layer, config.RootFS.DiffIDs[i], left); err != nil {
				return fmt.Errorf("layer %d: %w", i+1, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	unpacked := &Image{ID: id.String(), Root: root, Env: make(map[string]string)}
	for _, entry := range config.Config.Env {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			unpacked.Env[name] = value
		}
	}
	return unpacked, nil
}

// configuration returns an image's configuration and its digest, by which everything else of
// the image is checked.
func configuration(img v1.Image) (v1.Hash, *v1.ConfigFile, error) {
	raw, err := img.RawConfigFile()
	if err != nil {
		return v1.Hash{}, nil, err
	}
	id, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return v1.Hash{}, nil, err
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(raw))
	if err != nil {
		return v1.Hash{}, nil, fmt.Errorf("its configuration: %w", err)
	}
	if os, arch := cmp.Or(config.OS, "linux"), cmp.Or(config.Architecture, runtime.GOARCH); os != "linux" || arch != runtime.GOARCH {
		return v1.Hash{}, nil, fmt.Errorf("it is for %s/%s, and this machine is linux/%s", os, arch, runtime.GOARCH)
	}
	return id, config, nil
}

// A budget is what may still be unpacked.
type budget struct{ left int64 } // in bytes; negative from the start is without bound

// errTooLarge: Options.MaxSize is reached.
var errTooLarge = errors.New("it is larger than Options.MaxSize")

// spend takes n bytes.
func (b *budget) spend(n int64) error {
	switch {
	case b.left < 0:
		return nil
	case n > b.left:
		return errTooLarge
	}
	b.left -= n
	return nil
}

// entrySize is what a file takes besides its content.
const entrySize = 4096

// A spender is a reader that takes from a budget what it reads, and ends with a context.
type spender struct {
	ctx    context.Context
	from   io.Reader
	budget *budget
}

func (s *spender) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.from.Read(p)
	if spent := s.budget.spend(int64(n)); spent != nil {
		return n, spent
	}
	return n, err
}
