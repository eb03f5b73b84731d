package backendtest_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/sandbox-go/sandbox/backend"
)

// fileFaults are those of backends with files.
func fileFaults() []fault {
	return []fault{
		{name: "offset-ignored", caughtBy: "a-file-is-read-as-written", files: func(o *otherFiles) {
			o.read = func(ctx context.Context, name string, _, limit int64) (io.ReadCloser, error) {
				return o.Files.Read(ctx, name, 0, limit)
			}
		}},
		{name: "limit-ignored", caughtBy: "a-file-is-read-as-written", files: func(o *otherFiles) {
			o.read = func(ctx context.Context, name string, offset, _ int64) (io.ReadCloser, error) {
				return o.Files.Read(ctx, name, offset, -1)
			}
		}},
		{name: "written-in-place", caughtBy: "a-write-is-one-step", files: func(o *otherFiles) {
			o.write = func(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error {
				o.Files.Write(ctx, name, strings.NewReader(""), mode)
				return o.Files.Write(ctx, name, content, mode)
			}
		}},
		{name: "half-a-write-kept", caughtBy: "a-failed-write-changes-nothing", files: func(o *otherFiles) {
			o.write = func(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error {
				half, err := io.ReadAll(io.LimitReader(content, 1<<20))
				return errors.Join(err, o.Files.Write(ctx, name, bytes.NewReader(half), mode))
			}
		}},
		{name: "temporary-file-left", caughtBy: "a-failed-write-changes-nothing", files: func(o *otherFiles) {
			o.write = func(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error {
				err := o.Files.Write(ctx, name, content, mode)
				if err != nil {
					o.Files.Write(context.WithoutCancel(ctx), name+".tmp", strings.NewReader(""), mode)
				}
				return err
			}
		}},
		{name: "umask-applied", caughtBy: "a-write-sets-the-mode", files: func(o *otherFiles) {
			o.write = func(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error {
				return o.Files.Write(ctx, name, content, mode&^0o022)
			}
		}},
		{name: "link-replaced", caughtBy: "a-write-follows-links", files: func(o *otherFiles) {
			o.write = func(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error {
				o.Files.Remove(ctx, name, false)
				return o.Files.Write(ctx, name, content, mode)
			}
		}},
		{name: "read-ignores-its-context", caughtBy: "an-ended-context-ends-a-read", files: func(o *otherFiles) {
			o.read = func(ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error) {
				return o.Files.Read(context.WithoutCancel(ctx), name, offset, limit)
			}
		}},
		{name: "size-unknown", caughtBy: "files-are-an-fs", files: func(o *otherFiles) {
			o.stat = func(i backend.FileInfo, err error) (backend.FileInfo, error) {
				i.Size = 0
				return i, err
			}
		}},
		{name: "files-mixed-up", caughtBy: "file-work-goes-side-by-side", files: func(o *otherFiles) {
			o.read = func(ctx context.Context, _ string, offset, limit int64) (io.ReadCloser, error) {
				return o.Files.Read(ctx, "dir0/f", offset, limit)
			}
		}},
		{name: "read-leaks", caughtBy: "file-work-leaves-nothing", files: func(o *otherFiles) {
			o.read = func(ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error) {
				go leak()
				return o.Files.Read(ctx, name, offset, limit)
			}
		}},

		// Directories
		{name: "list-unsorted", caughtBy: "a-list-tells-all", files: listing(func(all []backend.FileInfo) []backend.FileInfo {
			slices.Reverse(all)
			return all
		})},
		{name: "list-of-utf8", caughtBy: "a-list-tells-all", files: listing(func(all []backend.FileInfo) []backend.FileInfo {
			for i := range all {
				all[i].Path = strings.ToValidUTF8(all[i].Path, "\uFFFD")
			}
			return all
		})},
		{name: "list-without-links", caughtBy: "a-list-tells-all", files: listing(func(all []backend.FileInfo) []backend.FileInfo {
			return slices.DeleteFunc(all, func(i backend.FileInfo) bool { return i.Target != "" })
		})},
		{name: "list-of-1000", caughtBy: "a-long-list-is-whole", files: listing(func(all []backend.FileInfo) []backend.FileInfo {
			return all[:min(len(all), 1000)]
		})},
		{name: "remove-removes-all", caughtBy: "directories-are-made-and-removed", files: func(o *otherFiles) {
			o.remove = func(ctx context.Context, name string, _ bool) error { return o.Files.Remove(ctx, name, true) }
		}},
		{name: "start-directory-emptied", caughtBy: "the-start-directory-stays", files: func(o *otherFiles) {
			o.remove = func(ctx context.Context, name string, recursive bool) error {
				if recursive {
					for info := range o.Files.List(ctx, name, false) {
						o.Files.Remove(ctx, name+"/"+info.Path, true)
					}
				}
				return o.Files.Remove(ctx, name, recursive)
			}
		}},
		{name: "rename-of-one-name-only", caughtBy: "a-rename-moves-and-replaces", files: func(o *otherFiles) {
			o.rename = func(ctx context.Context, from, to string) error {
				if strings.HasPrefix(from, "/workspace/") != strings.HasPrefix(to, "/workspace/") {
					return &fs.PathError{Op: "rename", Path: from, Err: errors.New("invalid cross-device link")}
				}
				return o.Files.Rename(ctx, from, to)
			}
		}},
		{name: "rename-does-not-replace", caughtBy: "a-rename-moves-and-replaces", files: func(o *otherFiles) {
			o.rename = func(ctx context.Context, from, to string) error {
				if _, err := o.Files.Stat(ctx, to); err == nil {
					return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrExist}
				}
				return o.Files.Rename(ctx, from, to)
			}
		}},
		{name: "names-cleaned", caughtBy: "names-mean-what-the-kernel-says", files: func(o *otherFiles) {
			o.read = func(ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error) {
				return o.Files.Read(ctx, path.Clean(name), offset, limit)
			}
		}},
		{name: "errors-untyped", caughtBy: "errors-of-files-are-typed", files: func(o *otherFiles) {
			o.stat = func(i backend.FileInfo, err error) (backend.FileInfo, error) {
				if err != nil {
					err = errors.New(err.Error())
				}
				return i, err
			}
		}},
		{name: "errors-of-other-names", caughtBy: "errors-of-files-are-typed", files: func(o *otherFiles) {
			o.stat = func(i backend.FileInfo, err error) (backend.FileInfo, error) {
				var p *fs.PathError
				if errors.As(err, &p) {
					p.Path = "/host/" + p.Path
				}
				return i, err
			}
		}},
		{name: "outside-read", caughtBy: "no-name-leads-outside", files: func(o *otherFiles) {
			o.read = func(ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error) {
				if f, err := os.Open(name); err == nil {
					return f, nil
				}
				return o.Files.Read(ctx, name, offset, limit)
			}
		}},
		{name: "outside-written", caughtBy: "no-name-leads-outside", files: func(o *otherFiles) {
			o.write = func(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error {
				if f, err := os.OpenFile(name, os.O_WRONLY, 0); err == nil {
					io.Copy(f, content)
					return f.Close()
				}
				return o.Files.Write(ctx, name, content, mode)
			}
		}},

		// Archives
		{name: "archive-without-times", caughtBy: "a-tree-goes-in-and-out", files: unpacking(func(h *tar.Header) { h.ModTime = h.ModTime.AddDate(1, 0, 0) })},
		{name: "archive-without-times-of-directories", caughtBy: "a-tree-goes-in-and-out", files: unpacking(func(h *tar.Header) {
			if h.Typeflag == tar.TypeDir {
				h.ModTime = h.ModTime.AddDate(1, 0, 0)
			}
		})},
		{name: "archive-of-files-only", caughtBy: "what-other-programs-pack-is-taken", files: func(o *otherFiles) {
			o.unpack = func(ctx context.Context, dir string, archive io.Reader) error {
				var copied bytes.Buffer
				entries := tar.NewReader(io.TeeReader(archive, &copied))
				for h, err := entries.Next(); err == nil; h, err = entries.Next() {
					if h.Typeflag == tar.TypeXGlobalHeader {
						return &fs.PathError{Op: "write tar", Path: h.Name, Err: backend.ErrSpecialFile}
					}
				}
				return o.Files.WriteTar(ctx, dir, &copied)
			}
		}},
		{name: "archive-cut-at-an-entry-taken", caughtBy: "a-broken-archive-is-an-error", files: unpacking(func(*tar.Header) {})},
		{name: "archive-without-modes", caughtBy: "a-tree-goes-in-and-out", files: unpacking(func(h *tar.Header) { h.Mode = 0o755 })},
		{name: "archive-with-links-made-files", caughtBy: "a-tree-goes-in-and-out", files: unpacking(func(h *tar.Header) { h.Typeflag = tar.TypeReg })},
		{name: "archive-without-hard-links", caughtBy: "hard-links-are-kept-together", files: unpacking(func(h *tar.Header) {
			if h.Typeflag == tar.TypeLink {
				h.Typeflag = tar.TypeReg
			}
		})},
		{name: "archive-made-harmless", caughtBy: "a-hostile-archive-is-refused", files: unpacking(func(h *tar.Header) { h.Name = path.Base(h.Name) })},
		{name: "archive-trusted", caughtBy: "a-hostile-archive-is-refused", files: func(o *otherFiles) {
			o.unpack = func(ctx context.Context, dir string, archive io.Reader) error {
				var copied bytes.Buffer
				entries := tar.NewReader(io.TeeReader(archive, &copied))
				for h, err := entries.Next(); err == nil; h, err = entries.Next() {
					if strings.HasPrefix(h.Name, "../") {
						o.Files.Write(ctx, path.Join(dir, h.Name), entries, 0o644)
					}
				}
				return o.Files.WriteTar(ctx, dir, &copied)
			}
		}},
		{name: "archive-believed", caughtBy: "a-broken-archive-is-an-error", files: func(o *otherFiles) {
			o.unpack = func(ctx context.Context, dir string, archive io.Reader) error {
				o.Files.WriteTar(ctx, dir, archive)
				return nil
			}
		}},
	}
}

// otherFiles are files of which some methods are others.
type otherFiles struct {
	backend.Files
	stat   func(backend.FileInfo, error) (backend.FileInfo, error)
	list   func([]backend.FileInfo) []backend.FileInfo
	read   func(ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error)
	write  func(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error
	remove func(ctx context.Context, name string, recursive bool) error
	rename func(ctx context.Context, from, to string) error
	unpack func(ctx context.Context, name string, archive io.Reader) error
}

func (o *otherFiles) Stat(ctx context.Context, name string) (backend.FileInfo, error) {
	info, err := o.Files.Stat(ctx, name)
	if o.stat != nil {
		return o.stat(info, err)
	}
	return info, err
}

func (o *otherFiles) List(ctx context.Context, name string, recursive bool) iter.Seq2[backend.FileInfo, error] {
	if o.list == nil {
		return o.Files.List(ctx, name, recursive)
	}
	return func(yield func(backend.FileInfo, error) bool) {
		var all []backend.FileInfo
		for info, err := range o.Files.List(ctx, name, recursive) {
			if err != nil {
				yield(info, err)
				return
			}
			all = append(all, info)
		}
		for _, info := range o.list(all) {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (o *otherFiles) Read(ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error) {
	if o.read != nil {
		return o.read(ctx, name, offset, limit)
	}
	return o.Files.Read(ctx, name, offset, limit)
}

func (o *otherFiles) Write(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error {
	if o.write != nil {
		return o.write(ctx, name, content, mode)
	}
	return o.Files.Write(ctx, name, content, mode)
}

func (o *otherFiles) Remove(ctx context.Context, name string, recursive bool) error {
	if o.remove != nil {
		return o.remove(ctx, name, recursive)
	}
	return o.Files.Remove(ctx, name, recursive)
}

func (o *otherFiles) Rename(ctx context.Context, from, to string) error {
	if o.rename != nil {
		return o.rename(ctx, from, to)
	}
	return o.Files.Rename(ctx, from, to)
}

func (o *otherFiles) WriteTar(ctx context.Context, name string, archive io.Reader) error {
	if o.unpack != nil {
		return o.unpack(ctx, name, archive)
	}
	return o.Files.WriteTar(ctx, name, archive)
}

// listing changes what a list gives.
func listing(change func([]backend.FileInfo) []backend.FileInfo) func(*otherFiles) {
	return func(o *otherFiles) { o.list = change }
}

// unpacking changes the entries of an archive on its way in.
func unpacking(change func(*tar.Header)) func(*otherFiles) {
	return func(o *otherFiles) {
		o.unpack = func(ctx context.Context, dir string, archive io.Reader) error {
			var changed bytes.Buffer
			w, entries := tar.NewWriter(&changed), tar.NewReader(archive)
			for h, err := entries.Next(); err == nil; h, err = entries.Next() {
				change(h)
				w.WriteHeader(h)
				io.Copy(w, entries)
			}
			w.Close()
			return o.Files.WriteTar(ctx, dir, &changed)
		}
	}
}
