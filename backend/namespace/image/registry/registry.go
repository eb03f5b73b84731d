// Package registry pulls images from registries, for package image. It is a package of its
// own, so that programs that take images from files do not link a registry's client.
package registry

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sandbox-go/sandbox/backend/namespace/image"
)

// Options say how an image is pulled. Nil and the zero value are the defaults.
type Options struct {
	image.Options

	// Progress, if not nil, is called as the image's layers come, with how many of their
	// bytes are here and how many they are. Calls follow one another. It is not called for an
	// image that is unpacked already.
	Progress func(done, total int64)

	// Remote are options for the client, as a transport, or another keychain
	// (remote.WithAuthFromKeychain; remote.WithAuth is refused beside the default one). By
	// default it has the credentials of docker login.
	Remote []remote.Option
}

// Pull unpacks the image that reference names, as in "debian:stable-slim". It asks the
// registry each time what that is now, and fetches no layer of an image that is unpacked
// already; with a digest in it, the reference is always the same image. What does not have the
// digest that the registry has said is an error. With a registry at a loopback or private
// address (RFC 1918), or below .localhost, the client falls back to HTTP where HTTPS does not
// answer: a name without a digest is then no safer than that network. The context covers the pull. It may be called concurrently.
func Pull(ctx context.Context, reference string, opts *Options) (*image.Image, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	client := append([]remote.Option{
		remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}),
	}, o.Remote...)
	img, err := remote.Image(ref, append(client, remote.WithContext(ctx))...)
	if err != nil {
		return nil, fmt.Errorf("registry: %s: %w", reference, err)
	}
	if o.Progress != nil {
		if img, err = watch(img, o.Progress); err != nil {
			return nil, fmt.Errorf("registry: %s: %w", reference, err)
		}
	}
	unpacked, err := image.UnpackImage(ctx, img, &o.Options)
	if err != nil {
		return nil, fmt.Errorf("registry: %s: %w", reference, err)
	}
	return unpacked, nil
}

// A watched image says how much of its layers has been read.
type watched struct {
	v1.Image
	progress    func(done, total int64)
	done, total int64
}

func watch(img v1.Image, progress func(done, total int64)) (v1.Image, error) {
	m, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	w := &watched{Image: img, progress: progress}
	for _, l := range m.Layers {
		w.total += l.Size
	}
	return w, nil
}

func (w *watched) Layers() ([]v1.Layer, error) {
	layers, err := w.Image.Layers()
	for i, l := range layers {
		if err == nil {
			layers[i], err = partial.CompressedToLayer(&watchedLayer{l, w})
		}
	}
	return layers, err
}

type watchedLayer struct {
	v1.Layer
	image *watched
}

func (l *watchedLayer) Compressed() (io.ReadCloser, error) {
	content, err := l.Layer.Compressed()
	if err != nil {
		return nil, err
	}
	return &watchedReader{content, l.image}, nil
}

type watchedReader struct {
	io.ReadCloser
	image *watched
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if n > 0 {
		r.image.done += int64(n)
		r.image.progress(r.image.done, r.image.total)
	}
	return n, err
}
