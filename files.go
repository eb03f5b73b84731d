package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"io/fs"
	"iter"

	"github.com/sandbox-go/sandbox/backend"
)

// Files reaches the files of a sandbox with the rights of its user: what a command
// could not do cannot be done here, and nothing outside the sandbox is reachable,
// whatever symbolic links there are. Its methods may be called concurrently. They end
// with their context, and with the sandbox. [Sandbox.Files] returns one.
//
// A relative name is below the start directory. No name is empty or has a NUL; it
// need not be UTF-8. Nothing blocks on a special file: a FIFO, a device or a socket
// that is to be read or written is ErrSpecialFile. Modes are permission bits.
//
// Errors are *Error. What is wrong with a file is an *fs.PathError in it, with the
// name as it was given, whose cause matches fs.ErrNotExist, fs.ErrExist,
// fs.ErrPermission, fs.ErrInvalid or one of this package's, as ErrIsDirectory. What no
// backend takes is an *InvalidError. Where the backend does not reach files, or lacks
// the operation, it is errors.ErrUnsupported.
type Files struct{ sb *sandboxImpl }

func (sb *sandboxImpl) Files() *Files { return &Files{sb} }

// Stat describes the file that name leads to, through symbolic links.
func (f *Files) Stat(ctx context.Context, name string) (info FileInfo, err error) {
	err = f.do(ctx, &backend.FileRequest{Op: backend.FileStat, Name: name, Found: func(i FileInfo) bool {
		info = i
		return true
	}})
	return info, err
}

// ListOptions say what Files.List lists.
type ListOptions struct {
	// Recursive lists what is below the directory, too, a directory before its
	// content. Symbolic links are not followed.
	Recursive bool
}

// List describes what is in a directory, sorted by name. It ends after the first
// error. Nil for opts is the default.
func (f *Files) List(ctx context.Context, name string, opts *ListOptions) iter.Seq2[FileInfo, error] {
	return func(yield func(FileInfo, error) bool) {
		more := true
		r := &backend.FileRequest{Op: backend.FileList, Name: name, Found: func(i FileInfo) bool {
			more = more && yield(i, nil)
			return more
		}}
		if orZero(opts).Recursive {
			r.Flags |= backend.FileRecursive
		}
		if err := f.do(ctx, r); err != nil && more {
			yield(FileInfo{}, err)
		}
	}
}

// ReadOptions say which part of a file is read.
type ReadOptions struct {
	Offset int64 // the first byte; one past the end gives nothing
	Limit  int64 // the most bytes; 0 is all

	// MaxSize bounds what ReadFile holds, in bytes: more is ErrTooLarge. 0 is 64 MiB,
	// and negative is no bound.
	MaxSize int64
}

const maxRead = 64 << 20

// Open returns the content of a file. Nil for opts is all of it. The context covers
// the reading until Close, which must be called and waits for nothing that is left to
// read.
func (f *Files) Open(ctx context.Context, name string, opts *ReadOptions) (io.ReadCloser, error) {
	return f.open(ctx, readRequest(name, orZero(opts)))
}

// ReadFile returns the content of a file. Nil for opts is all of it.
func (f *Files) ReadFile(ctx context.Context, name string, opts *ReadOptions) ([]byte, error) {
	o := orZero(opts)
	r := readRequest(name, o)
	content := &buffer{b: []byte{}, max: cmp.Or(o.MaxSize, maxRead)}
	r.Output = content
	err := f.do(ctx, r)
	if content.full {
		err = f.wrap(r.Op, &fs.PathError{Op: string(r.Op), Path: name, Err: ErrTooLarge})
	}
	if err != nil {
		return nil, err
	}
	return content.b, nil
}

func readRequest(name string, o ReadOptions) *backend.FileRequest {
	return &backend.FileRequest{Op: backend.FileRead, Name: name, Offset: o.Offset, Limit: o.Limit}
}

// A buffer fails when it is given more than max bytes; negative is no bound.
type buffer struct {
	b    []byte
	max  int64
	full bool
}

func (b *buffer) Write(p []byte) (int, error) {
	if b.full = b.full || b.max >= 0 && int64(len(b.b)+len(p)) > b.max; b.full {
		return 0, ErrTooLarge
	}
	b.b = append(b.b, p...)
	return len(p), nil
}

// WriteOptions say how a file is written.
type WriteOptions struct {
	// Mode is the file's permissions, whatever the umask; 0 keeps those of a file
	// that is replaced, and is 0644 for a new one.
	Mode fs.FileMode

	// Parents makes the directories above the file that are missing, with mode 0755.
	Parents bool

	// MaxSize bounds the content, in bytes: more is ErrTooLarge, and nothing is
	// changed. 0 is no bound.
	MaxSize int64
}

// WriteFile is WriteFrom of a content that is at hand.
func (f *Files) WriteFile(ctx context.Context, name string, content []byte, opts *WriteOptions) error {
	return f.WriteFrom(ctx, name, bytes.NewReader(content), opts)
}

// WriteFrom makes a file of what content has until its io.EOF, or replaces one, in
// one step: whoever reads it sees the old content or the new one, and after an error,
// which may be content's, it is the old one. A symbolic link is followed. A Read of
// content that blocks when the context ends is left behind. Nil for opts are the
// defaults.
func (f *Files) WriteFrom(ctx context.Context, name string, content io.Reader, opts *WriteOptions) error {
	return f.do(ctx, writeRequest(name, content, orZero(opts)))
}

func writeRequest(name string, content io.Reader, o WriteOptions) *backend.FileRequest {
	r := &backend.FileRequest{Op: backend.FileWrite, Name: name, Mode: o.Mode, Content: content}
	if o.Mode == 0 {
		r.Mode, r.Flags = 0o644, backend.FileKeepMode
	}
	if o.Parents {
		r.Flags |= backend.FileParents
	}
	if o.MaxSize > 0 {
		r.Content = &bounded{content, o.MaxSize}
	}
	return r
}

// Create returns a writer of a file's content, which is for one goroutine at a time.
// The file is made, or replaced in one step as by WriteFrom, when the writer's Close
// returns nil; an error tells Write or Close. Close must be called: to give up, end
// the context before. Nil for opts are the defaults.
func (f *Files) Create(ctx context.Context, name string, opts *WriteOptions) (io.WriteCloser, error) {
	content, w := io.Pipe()
	r := writeRequest(name, content, orZero(opts))
	if _, err := f.check(r); err != nil {
		return nil, f.wrap(r.Op, err)
	}
	c := &creation{PipeWriter: w, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = f.do(ctx, r)
		content.CloseWithError(cmp.Or(c.err, io.ErrClosedPipe))
	}()
	return c, nil
}

// A creation is a file on its way into the sandbox.
type creation struct {
	*io.PipeWriter
	done chan struct{}
	err  error // valid once done is closed
}

func (c *creation) Close() error {
	c.PipeWriter.Close()
	<-c.done
	return c.err
}

// MkdirAll makes a directory, and those above it that are missing. One that exists is
// no error, and stays as it is.
func (f *Files) MkdirAll(ctx context.Context, name string, mode fs.FileMode) error {
	return f.do(ctx, &backend.FileRequest{Op: backend.FileMkdir, Name: name, Mode: mode})
}

// RemoveOptions say what Files.Remove removes.
type RemoveOptions struct {
	// Recursive removes a directory that is not empty, with all below it.
	Recursive bool
}

// Remove removes a file, a symbolic link itself, or a directory; one that cannot be
// removed as a whole keeps what is in it. Nil for opts are the defaults.
func (f *Files) Remove(ctx context.Context, name string, opts *RemoveOptions) error {
	r := &backend.FileRequest{Op: backend.FileRemove, Name: name}
	if orZero(opts).Recursive {
		r.Flags |= backend.FileRecursive
	}
	return f.do(ctx, r)
}

// Rename moves a file or a directory, and replaces a file that is in its way. It does
// not move between file systems: that is fs.ErrInvalid.
func (f *Files) Rename(ctx context.Context, from, to string) error {
	return f.do(ctx, &backend.FileRequest{Op: backend.FileRename, Name: from, To: to})
}

// Chmod sets the permissions of what name leads to, through symbolic links.
func (f *Files) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	return f.do(ctx, &backend.FileRequest{Op: backend.FileChmod, Name: name, Mode: mode})
}

// ReadTar returns a tar archive of a directory, names relative to it, or of one file.
// Special files are left out. The context covers the reading until Close, which must
// be called; an archive without its end marker is not complete.
func (f *Files) ReadTar(ctx context.Context, name string) (io.ReadCloser, error) {
	return f.open(ctx, &backend.FileRequest{Op: backend.FileReadTar, Name: name})
}

// WriteTar unpacks a tar archive into a directory, which is made when it is missing.
// Entries that lead out of it are refused, and so are special files. After an error a
// part may have been unpacked.
func (f *Files) WriteTar(ctx context.Context, name string, archive io.Reader) error {
	return f.do(ctx, &backend.FileRequest{Op: backend.FileWriteTar, Name: name, Content: archive})
}

// orZero returns what o points to, or the defaults.
func orZero[T any](o *T) (zero T) {
	if o == nil {
		return zero
	}
	return *o
}
