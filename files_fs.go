package sandbox

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"
)

// FS returns the files below a directory of sb as an fs.FS, which is also an
// fs.StatFS, fs.ReadDirFS and fs.ReadFileFS. The context covers all that is done
// with it. It follows symbolic links in names, as the sandbox's own programs do.
func FS(ctx context.Context, sb Sandbox, dir string) fs.FS {
	return &fileSystem{ctx: ctx, files: sb.Files(), dir: dir}
}

type fileSystem struct {
	ctx   context.Context
	files *Files
	dir   string
}

// name returns the sandbox's name of a name of the file system.
func (f *fileSystem) name(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return path.Join(f.dir, name), nil
}

// pathError returns err as io/fs wants it.
func pathError(op, name string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (f *fileSystem) Open(name string) (fs.File, error) {
	info, err := f.Stat(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if info.IsDir() {
		return &openDir{fs: f, name: name, info: info}, nil
	}
	full, _ := f.name("open", name)
	r, err := f.files.Open(f.ctx, full, nil)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &openFile{ReadCloser: r, info: info}, nil
}

func (f *fileSystem) Stat(name string) (fs.FileInfo, error) {
	full, err := f.name("stat", name)
	if err != nil {
		return nil, err
	}
	info, err := f.files.Stat(f.ctx, full)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return fileInfo{name: path.Base(name), FileInfo: info}, nil
}

func (f *fileSystem) ReadFile(name string) ([]byte, error) {
	full, err := f.name("read", name)
	if err != nil {
		return nil, err
	}
	content, err := f.files.ReadFile(f.ctx, full, &ReadOptions{MaxSize: -1})
	if err != nil {
		return nil, pathError("read", name, err)
	}
	return content, nil
}

func (f *fileSystem) ReadDir(name string) ([]fs.DirEntry, error) {
	full, err := f.name("readdir", name)
	if err != nil {
		return nil, err
	}
	var entries []fs.DirEntry
	for info, err := range f.files.List(f.ctx, full, nil) {
		if err != nil {
			return nil, pathError("readdir", name, err)
		}
		entries = append(entries, fs.FileInfoToDirEntry(fileInfo{name: info.Path, FileInfo: info}))
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// fileInfo is an fs.FileInfo.
type fileInfo struct {
	name string
	FileInfo
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.FileInfo.Size }
func (i fileInfo) Mode() fs.FileMode  { return i.FileInfo.Mode }
func (i fileInfo) ModTime() time.Time { return i.FileInfo.ModTime }
func (i fileInfo) IsDir() bool        { return i.FileInfo.Mode.IsDir() }
func (i fileInfo) Sys() any           { return i.FileInfo }

// openFile is an fs.File that is not a directory.
type openFile struct {
	io.ReadCloser
	info fs.FileInfo
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }

// openDir is an fs.ReadDirFile.
type openDir struct {
	fs      *fileSystem
	name    string
	info    fs.FileInfo
	read    bool
	entries []fs.DirEntry // not yet returned
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *openDir) Close() error               { return nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: errors.New("is a directory")}
}

func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if !d.read {
		entries, err := d.fs.ReadDir(d.name)
		if err != nil {
			return nil, err
		}
		d.read, d.entries = true, entries
	}
	take := len(d.entries)
	if n > 0 {
		if take == 0 {
			return nil, io.EOF
		}
		take = min(n, take)
	}
	entries := d.entries[:take:take]
	d.entries = d.entries[take:]
	return entries, nil
}
