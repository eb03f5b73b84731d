package backend

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"time"
)

// A Filer is an Instance whose files can be reached without a command of the
// user's. Package sandbox looks for it.
type Filer interface {
	Files() Files
}

// Files reaches the files of a sandbox with the rights of its user: what a command
// could not do cannot be done here, and nothing outside the sandbox is reachable,
// whatever symbolic links there are. The methods may be called concurrently.
//
// A name that is relative is below the start directory. No name is empty or has a
// NUL; it need not be UTF-8. Nothing blocks on a special file: a FIFO, a device or
// a socket that is to be read or written is ErrSpecialFile.
//
// Errors are *fs.PathError with the name as it was given. Their causes match
// fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid (what a name cannot be
// used for, as a root or a directory's own parent) and the errors below. Any other
// error means that it could not be found out.
type Files interface {
	// Stat describes the file that name leads to, through symbolic links.
	Stat(ctx context.Context, name string) (FileInfo, error)

	// List describes what is in a directory, sorted by name, and with recursive
	// what is below it, a directory before its content. It does not follow
	// symbolic links below name. It ends after the first error.
	List(ctx context.Context, name string, recursive bool) iter.Seq2[FileInfo, error]

	// Read returns the content from offset on, at most limit bytes; a negative
	// limit is no bound. An offset past the end gives nothing. The context covers
	// the reading until Close.
	Read(ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error)

	// Write makes a file of that content and mode, or replaces one, in one step:
	// whoever reads it sees the old content or the new one, and after an error
	// it is the old one. A symbolic link is followed. The directory must exist.
	Write(ctx context.Context, name string, content io.Reader, mode fs.FileMode) error

	// Mkdir makes a directory, and those above it that are missing. One that
	// exists is no error.
	Mkdir(ctx context.Context, name string, mode fs.FileMode) error

	// Remove removes a file, a symbolic link itself, or an empty directory; with
	// recursive a directory and all below it.
	Remove(ctx context.Context, name string, recursive bool) error

	// Rename moves a file or a directory, and replaces a file that is in its
	// way.
	Rename(ctx context.Context, from, to string) error

	// ReadTar returns a tar archive of a directory, names relative to it, or of
	// one file. Special files are left out. The context covers the reading until
	// Close; an archive without its end marker is not complete.
	ReadTar(ctx context.Context, name string) (io.ReadCloser, error)

	// WriteTar unpacks a tar archive into a directory, which is made when it is
	// missing. Entries that lead out of it are refused, and so are special
	// files. After an error a part may have been unpacked.
	WriteTar(ctx context.Context, name string, archive io.Reader) error
}

// A FileInfo describes one file.
type FileInfo struct {
	// Path is the name that was asked for, or in a listing the path below it.
	Path string

	Size    int64 // in bytes, of a regular file
	Mode    fs.FileMode
	ModTime time.Time
	Target  string // what a symbolic link says
}

// What is wrong with a file, besides the errors of package fs.
var (
	ErrIsDirectory  = errors.New("is a directory")
	ErrNotDirectory = errors.New("not a directory")
	ErrNotEmpty     = errors.New("directory not empty")
	ErrSpecialFile  = errors.New("not a regular file")
	ErrOutside      = errors.New("leads out of the sandbox")
	ErrLinkLoop     = errors.New("too many levels of symbolic links")
	ErrNoSpace      = errors.New("no space left")
	ErrArchive      = errors.New("not a whole tar archive")
)
