package sandbox

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/files"
)

// CopyOptions say how a directory is copied between the host and a sandbox.
type CopyOptions struct {
	// Progress is called when an entry begins, after each 64 KiB or so, and at the
	// end, from one goroutine, which waits for it. A panic of it ends the copy.
	Progress func(CopyProgress)

	// MaxSize bounds what is copied, in bytes of a tar archive: the contents and
	// 1 KiB or so for each entry. More is ErrTooLarge. 0 is no bound.
	MaxSize int64

	// OutsideLinks has CopyOut make symbolic links that lead out of the directory,
	// which programs of the host would follow. Otherwise they are
	// ErrOutside.
	OutsideLinks bool
}

// A CopyProgress says how far a copy has come.
type CopyProgress struct {
	Name    string // of the present entry, below the directory
	Entries int    // begun so far: files, directories, symbolic links
	Bytes   int64  // so far, as CopyOptions.MaxSize counts them
}

// CopyIn copies what is in the directory hostDir of this machine into the sandbox's
// directory name, which is made when it is missing, and replaces the files that are in
// its way. Modes and times are kept, owners are not. Symbolic links are copied and not
// followed; special files are left out. After an error a part may have been copied.
// Nil for opts are the defaults.
func (f *Files) CopyIn(ctx context.Context, hostDir, name string, opts *CopyOptions) error {
	host, err := os.OpenRoot(hostDir)
	if err != nil {
		return f.wrap("copy in", err)
	}
	defer host.Close()
	archive, w := io.Pipe()
	c := &copying{o: orZero(opts), w: w}
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		w.CloseWithError(c.end(files.In(host, hostDir).File(ctx, &backend.FileRequest{
			Op: backend.FileReadTar, Name: ".", Output: c, Found: c.begin,
		})))
	}()
	err = f.WriteTar(ctx, name, archive)
	archive.Close()
	<-packed
	return err
}

// CopyOut copies what is in the sandbox's directory name, or the file of that name,
// into the directory hostDir of this machine, which is made when it is missing, and
// replaces the files that are in its way. It trusts nothing in the sandbox: nothing
// outside of hostDir is made, changed or read, whatever names and links there are, and
// no file gets more than permission bits. Modes and times are kept, owners are not.
// Special files are left out. After an error a part may have been copied. Nil for opts
// are the defaults.
func (f *Files) CopyOut(ctx context.Context, name, hostDir string, opts *CopyOptions) error {
	archive, err := f.ReadTar(ctx, name)
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := os.MkdirAll(hostDir, 0o755); err != nil {
		return f.wrap("copy out", err)
	}
	host, err := os.OpenRoot(hostDir)
	if err != nil {
		return f.wrap("copy out", err)
	}
	defer host.Close()
	c := &copying{o: orZero(opts), r: archive}
	tree := files.In(host, hostDir)
	tree.KeepInside = !c.o.OutsideLinks
	err = c.end(tree.File(context.WithoutCancel(ctx), &backend.FileRequest{ // the archive ends with ctx
		Op: backend.FileWriteTar, Name: ".", Content: c, Found: c.begin,
	}))
	if of := (*Error)(nil); errors.As(err, &of) { // the archive's
		return err
	}
	return f.wrap("copy out", err)
}

// A copying is an archive on its way, and counts it.
type copying struct {
	o    CopyOptions
	r    io.Reader
	w    io.Writer
	at   CopyProgress
	told int64 // of at.Bytes
	err  error // the first that is not io.EOF
}

func (c *copying) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	return n, c.add(n, err)
}

func (c *copying) Write(p []byte) (int, error) {
	if err := c.add(len(p), nil); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

func (c *copying) add(n int, err error) error {
	c.at.Bytes += int64(n)
	if c.o.MaxSize > 0 && c.at.Bytes > c.o.MaxSize {
		err = ErrTooLarge
	}
	if c.at.Bytes-c.told >= pieceSize {
		c.tell()
	}
	if c.err == nil && err != io.EOF {
		c.err = err
	}
	return cmp.Or(c.err, err)
}

// begin is told of the entry that begins.
func (c *copying) begin(i FileInfo) bool {
	c.at.Name = i.Path
	c.at.Entries++
	c.tell()
	return true
}

func (c *copying) end(err error) error {
	if err == nil {
		c.tell()
	}
	return cmp.Or(c.err, err)
}

func (c *copying) tell() {
	c.told = c.at.Bytes
	if c.o.Progress == nil || c.err != nil {
		return
	}
	if caught := protect(func() { c.o.Progress(c.at) }); caught != nil {
		c.err = caught
	}
}
