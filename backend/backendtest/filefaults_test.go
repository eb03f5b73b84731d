package backendtest_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// fileFaults are those of backends with files.
func fileFaults() []fault {
	return []fault{
		{name: "offset-ignored", caughtBy: "a-file-is-read-as-written", files: asking(backend.FileRead, func(r *backend.FileRequest) { r.Offset = 0 })},
		{name: "limit-ignored", caughtBy: "a-file-is-read-as-written", files: asking(backend.FileRead, func(r *backend.FileRequest) { r.Limit = 0 })},
		{name: "written-in-place", caughtBy: "a-write-is-one-step", files: on(backend.FileWrite, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
			empty := *r
			empty.Content = strings.NewReader("")
			do(ctx, &empty)
			return do(ctx, r)
		})},
		{name: "half-a-write-kept", caughtBy: "a-failed-write-changes-nothing", files: on(backend.FileWrite, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
			half, err := io.ReadAll(io.LimitReader(r.Content, 1<<20))
			r.Content = bytes.NewReader(half)
			return errors.Join(err, do(context.WithoutCancel(ctx), r))
		})},
		{name: "temporary-file-left", caughtBy: "a-failed-write-changes-nothing", files: on(backend.FileWrite, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
			err := do(ctx, r)
			if err != nil {
				r.Name, r.Content = r.Name+".tmp", strings.NewReader("")
				do(context.WithoutCancel(ctx), r)
			}
			return err
		})},
		{name: "bound-comes-late", caughtBy: "a-write-is-bounded", files: on(backend.FileWrite, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
			content, err := io.ReadAll(r.Content)
			r.Content = bytes.NewReader(content)
			return errors.Join(err, do(ctx, r))
		})},
		{name: "umask-applied", caughtBy: "a-write-sets-the-mode", files: asking(backend.FileWrite, func(r *backend.FileRequest) { r.Mode &^= 0o022 })},
		{name: "mode-not-kept", caughtBy: "a-write-sets-the-mode", files: asking(backend.FileWrite, func(r *backend.FileRequest) { r.Flags &^= backend.FileKeepMode })},
		{name: "parents-not-made", caughtBy: "a-write-makes-what-is-missing", files: asking(backend.FileWrite, func(r *backend.FileRequest) { r.Flags &^= backend.FileParents })},
		{name: "parents-always-made", caughtBy: "a-write-makes-what-is-missing", files: asking(backend.FileWrite, func(r *backend.FileRequest) { r.Flags |= backend.FileParents })},
		{name: "link-replaced", caughtBy: "a-write-follows-links", files: on(backend.FileWrite, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
			do(ctx, &backend.FileRequest{Op: backend.FileRemove, Name: r.Name})
			return do(ctx, r)
		})},
		{name: "ended-content-kept", caughtBy: "a-writer-is-closed-or-given-up", files: on(backend.FileWrite, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
			got, _ := io.ReadAll(io.LimitReader(r.Content, 1<<20)) // another of the case has no end
			r.Content = bytes.NewReader(got)
			return do(context.WithoutCancel(ctx), r)
		})},
		{name: "read-outlasts-its-context", caughtBy: "an-ended-context-ends-a-read", files: on(backend.FileRead, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
			err := do(ctx, r)
			if err != nil {
				time.Sleep(time.Minute)
			}
			return err
		})},
		{name: "size-unknown", caughtBy: "files-are-an-fs", files: asking(backend.FileStat, func(r *backend.FileRequest) {
			found := r.Found
			r.Found = func(i backend.FileInfo) bool { i.Size = 0; return found(i) }
		})},
		{name: "files-mixed-up", caughtBy: "file-work-goes-side-by-side", files: asking(backend.FileRead, func(r *backend.FileRequest) { r.Name = "dir0/f" })},
		{name: "read-leaks", caughtBy: "file-work-leaves-nothing", files: asking(backend.FileRead, func(*backend.FileRequest) { go leak() })},
		{name: "unknown-flags-ignored", caughtBy: "an-unknown-file-operation-is-refused", files: asking(backend.FileMkdir, func(r *backend.FileRequest) { r.Flags = 0 })},
		{name: "unknown-operation-untyped", caughtBy: "an-unknown-file-operation-is-refused", files: on("unknown", func(context.Context, *backend.FileRequest, fileFunc) error {
			return errors.New("what?")
		})},

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
		{name: "mkdir-changes-what-exists", caughtBy: "directories-are-made-and-removed", files: on(backend.FileMkdir, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
			return errors.Join(do(ctx, r), do(ctx, &backend.FileRequest{Op: backend.FileChmod, Name: r.Name, Mode: r.Mode}))
		})},
		{name: "remove-removes-all", caughtBy: "directories-are-made-and-removed", files: asking(backend.FileRemove, func(r *backend.FileRequest) { r.Flags |= backend.FileRecursive })},
		{name: "start-directory-emptied", caughtBy: "the-start-directory-stays", files: on(backend.FileRemove, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
			if r.Flags&backend.FileRecursive != 0 {
				do(ctx, &backend.FileRequest{Op: backend.FileList, Name: r.Name, Found: func(i backend.FileInfo) bool {
					do(ctx, &backend.FileRequest{Op: backend.FileRemove, Flags: backend.FileRecursive, Name: r.Name + "/" + i.Path})
					return true
				}})
			}
			return do(ctx, r)
		})},
		{name: "rename-of-one-name-only", caughtBy: "a-rename-moves-and-replaces", files: on(backend.FileRename, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
			if strings.HasPrefix(r.Name, "/workspace/") != strings.HasPrefix(r.To, "/workspace/") {
				return &fs.PathError{Op: "rename", Path: r.Name, Err: errors.New("invalid cross-device link")}
			}
			return do(ctx, r)
		})},
		{name: "rename-does-not-replace", caughtBy: "a-rename-moves-and-replaces", files: on(backend.FileRename, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
			exists := false
			do(ctx, &backend.FileRequest{Op: backend.FileStat, Name: r.To, Found: func(backend.FileInfo) bool { exists = true; return true }})
			if exists {
				return &fs.PathError{Op: "rename", Path: r.Name, Err: fs.ErrExist}
			}
			return do(ctx, r)
		})},
		{name: "chmod-does-nothing", caughtBy: "a-mode-is-changed", files: on(backend.FileChmod, func(context.Context, *backend.FileRequest, fileFunc) error { return nil })},
		{name: "chmod-of-the-owner-only", caughtBy: "a-mode-is-changed", files: asking(backend.FileChmod, func(r *backend.FileRequest) { r.Mode &= 0o700 })},
		{name: "names-cleaned", caughtBy: "names-mean-what-the-kernel-says", files: asking(backend.FileRead, func(r *backend.FileRequest) { r.Name = path.Clean(r.Name) })},
		{name: "errors-untyped", caughtBy: "errors-of-files-are-typed", files: on(backend.FileStat, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
			if err := do(ctx, r); err != nil {
				return errors.New(err.Error())
			}
			return nil
		})},
		{name: "errors-of-other-names", caughtBy: "errors-of-files-are-typed", files: on(backend.FileStat, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
			err := do(ctx, r)
			var p *fs.PathError
			if errors.As(err, &p) {
				p.Path = "/host/" + p.Path
			}
			return err
		})},
		{name: "outside-read", caughtBy: "no-name-leads-outside", files: on(backend.FileRead, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
			if f, err := os.Open(r.Name); err == nil {
				_, err = io.Copy(r.Output, f)
				return errors.Join(err, f.Close())
			}
			return do(ctx, r)
		})},
		{name: "outside-written", caughtBy: "no-name-leads-outside", files: on(backend.FileWrite, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
			if f, err := os.OpenFile(r.Name, os.O_WRONLY, 0); err == nil {
				io.Copy(f, r.Content)
				return f.Close()
			}
			return do(ctx, r)
		})},
		{name: "outside-changed", caughtBy: "no-name-leads-outside", files: on(backend.FileChmod, func(_ context.Context, r *backend.FileRequest, _ fileFunc) error {
			return os.Chmod(r.Name, r.Mode)
		})},

		// Archives
		{name: "archive-without-times", caughtBy: "a-tree-goes-in-and-out", files: unpacking(func(h *tar.Header) { h.ModTime = h.ModTime.AddDate(1, 0, 0) })},
		{name: "archive-without-times-of-directories", caughtBy: "a-tree-goes-in-and-out", files: unpacking(func(h *tar.Header) {
			if h.Typeflag == tar.TypeDir {
				h.ModTime = h.ModTime.AddDate(1, 0, 0)
			}
		})},
		{name: "archive-of-files-only", caughtBy: "what-other-programs-pack-is-taken", files: scanning(func(h *tar.Header, _ io.Reader, _ fileFunc) error {
			if h.Typeflag == tar.TypeXGlobalHeader {
				return &fs.PathError{Op: "write tar", Path: h.Name, Err: backend.ErrSpecialFile}
			}
			return nil
		})},
		{name: "archive-cut-at-an-entry-taken", caughtBy: "a-broken-archive-is-an-error", files: unpacking(func(*tar.Header) {})},
		{name: "archive-without-modes", caughtBy: "a-tree-goes-in-and-out", files: unpacking(func(h *tar.Header) { h.Mode = 0o755 })},
		{name: "archive-with-links-made-files", caughtBy: "a-tree-goes-in-and-out", files: unpacking(func(h *tar.Header) { h.Typeflag = tar.TypeReg })},
		{name: "copied-without-links", caughtBy: "a-directory-of-the-host-goes-in-and-out", files: unpacking(func(h *tar.Header) {
			if h.Typeflag == tar.TypeSymlink {
				h.Typeflag = tar.TypeReg
			}
		})},
		{name: "archive-without-hard-links", caughtBy: "hard-links-are-kept-together", files: unpacking(func(h *tar.Header) {
			if h.Typeflag == tar.TypeLink {
				h.Typeflag = tar.TypeReg
			}
		})},
		{name: "archive-made-harmless", caughtBy: "a-hostile-archive-is-refused", files: unpacking(func(h *tar.Header) { h.Name = path.Base(h.Name) })},
		{name: "archive-trusted", caughtBy: "a-hostile-archive-is-refused", files: scanning(func(h *tar.Header, content io.Reader, do fileFunc) error {
			if strings.HasPrefix(h.Name, "../") {
				do(context.Background(), &backend.FileRequest{Op: backend.FileWrite, Name: path.Join("into/x", h.Name), Mode: 0o644, Content: content})
			}
			return nil
		})},
		{name: "archive-believed", caughtBy: "a-broken-archive-is-an-error", files: on(backend.FileWriteTar, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
			whole, _ := io.ReadAll(r.Content)
			r.Content = bytes.NewReader(whole)
			do(ctx, r)
			return nil
		})},
	}
}

// A fileFunc is the method of a backend.Filer.
type fileFunc func(context.Context, *backend.FileRequest) error

// on has an operation done by other, which may use the request, and do what was done
// before.
func on(op backend.FileOp, other func(ctx context.Context, r *backend.FileRequest, do fileFunc) error) func(fileFunc) fileFunc {
	return func(do fileFunc) fileFunc {
		return func(ctx context.Context, r *backend.FileRequest) error {
			if r.Op != op {
				return do(ctx, r)
			}
			changed := *r
			return other(ctx, &changed, do)
		}
	}
}

// asking changes what an operation is asked for.
func asking(op backend.FileOp, edit func(*backend.FileRequest)) func(fileFunc) fileFunc {
	return on(op, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
		edit(r)
		return do(ctx, r)
	})
}

// listing changes what a list gives.
func listing(change func([]backend.FileInfo) []backend.FileInfo) func(fileFunc) fileFunc {
	return on(backend.FileList, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
		var all []backend.FileInfo
		found := r.Found
		r.Found = func(i backend.FileInfo) bool {
			all = append(all, i)
			return true
		}
		err := do(ctx, r)
		for _, i := range change(all) {
			if !found(i) {
				break
			}
		}
		return err
	})
}

// unpacking changes the entries of an archive on its way in.
func unpacking(change func(*tar.Header)) func(fileFunc) fileFunc {
	return on(backend.FileWriteTar, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
		var changed bytes.Buffer
		w, entries := tar.NewWriter(&changed), tar.NewReader(r.Content)
		for h, err := entries.Next(); err == nil; h, err = entries.Next() {
			change(h)
			w.WriteHeader(h)
			io.Copy(w, entries)
		}
		w.Close()
		r.Content = &changed
		return do(ctx, r)
	})
}

// scanning looks at the entries of an archive before it is unpacked.
func scanning(look func(h *tar.Header, content io.Reader, do fileFunc) error) func(fileFunc) fileFunc {
	return on(backend.FileWriteTar, func(ctx context.Context, r *backend.FileRequest, do fileFunc) error {
		var copied bytes.Buffer
		entries := tar.NewReader(io.TeeReader(r.Content, &copied))
		for h, err := entries.Next(); err == nil; h, err = entries.Next() {
			if err := look(h, entries, do); err != nil {
				return err
			}
		}
		r.Content = &copied
		return do(ctx, r)
	})
}
