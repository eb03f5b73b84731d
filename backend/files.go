package backend

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"
)

// A Filer is an Instance whose files can be reached without a command of the
// user's. Package sandbox looks for it.
//
// It works with the rights of the sandbox's user: what a command could not do
// cannot be done here, and nothing outside the sandbox is reachable, whatever
// symbolic links there are. Nothing blocks on a special file: a FIFO, a device or a
// socket that is to be read or written is ErrSpecialFile.
type Filer interface {
	// File does the operation r, and returns when it is done: nothing of r is used
	// afterwards, but for a Read of Content in progress, which is not waited for. It
	// may be called concurrently, and does not change r.
	//
	// The context covers the whole operation. When it ends, a Read of Content and a
	// Write to Output that block fail, and File returns soon, with an error that wraps
	// the context's.
	//
	// An Op that the driver does not have, or a flag that it does not know, is
	// refused before anything is done, with an error that wraps
	// errors.ErrUnsupported: more of both may come.
	//
	// An error of Content or Output ends the operation; package sandbox knows it, and
	// does not look at what File returns then. What is wrong with a file is an
	// *fs.PathError with the name as r has it. Its cause matches fs.ErrNotExist,
	// fs.ErrExist, fs.ErrPermission, fs.ErrInvalid (what a name cannot be used for, as
	// a root or a directory's own parent) or one of the errors below. Any other error
	// means that the driver could not find out.
	File(ctx context.Context, r *FileRequest) error
}

// A FileOp names an operation on files.
type FileOp string

const (
	// FileStat calls Found once, for the file that Name leads to, through symbolic
	// links.
	FileStat FileOp = "stat"

	// FileList calls Found for what is in the directory Name, sorted by name, and
	// with FileRecursive for what is below it, a directory before its content. It
	// does not follow symbolic links below Name.
	FileList FileOp = "list"

	// FileRead writes the content to Output, from Offset on, at most Limit bytes. An
	// Offset past the end gives nothing.
	FileRead FileOp = "read"

	// FileWrite makes a file of that Content and Mode, or replaces one, in one step:
	// whoever reads it sees the old content or the new one, and after an error it is
	// the old one. A symbolic link is followed. The directory must exist, unless
	// FileParents is set.
	FileWrite FileOp = "write"

	// FileMkdir makes a directory of that Mode, and those above it that are missing.
	// One that exists is no error, and stays as it is.
	FileMkdir FileOp = "mkdir"

	// FileRemove removes a file, a symbolic link itself, or an empty directory; with
	// FileRecursive a directory and all below it. Of one that cannot be removed as a
	// whole nothing is.
	FileRemove FileOp = "remove"

	// FileRename moves the file or directory Name to To, and replaces a file that is
	// in its way.
	FileRename FileOp = "rename"

	// FileChmod sets the Mode of what Name leads to, through symbolic links.
	FileChmod FileOp = "chmod"

	// FileReadTar writes a tar archive of a directory to Output, names relative to
	// it, or of one file. Special files are left out. An archive without its end
	// marker is not complete.
	FileReadTar FileOp = "read tar"

	// FileWriteTar unpacks the tar archive Content into a directory, which is made
	// when it is missing. Entries that lead out of it are refused, and so are
	// special files. After an error a part may have been unpacked.
	FileWriteTar FileOp = "write tar"
)

// FileFlags change what an operation does.
type FileFlags uint32

const (
	// FileRecursive: FileList and FileRemove reach what is below a directory.
	FileRecursive FileFlags = 1 << iota

	// FileParents: FileWrite makes the directories above the file that are missing,
	// with mode 0755.
	FileParents

	// FileKeepMode: a file that FileWrite replaces keeps its permissions; Mode is for
	// a new one.
	FileKeepMode
)

// A FileRequest is one operation on files. Package sandbox has checked it: no name
// is empty or has a NUL, numbers are not negative, Mode has permission bits only. A
// name need not be UTF-8; a relative one is below the start directory.
type FileRequest struct {
	Op    FileOp
	Flags FileFlags

	Name string
	To   string      // FileRename
	Mode fs.FileMode // FileWrite, FileMkdir, FileChmod

	Offset int64 // FileRead: the first byte
	Limit  int64 // FileRead: the most bytes; 0 is no bound

	// Content is what FileWrite and FileWriteTar read, to its end.
	Content io.Reader

	// Output takes what FileRead and FileReadTar give, from one goroutine at a time.
	Output io.Writer

	// Found takes what FileStat and FileList find, in the goroutine that has called
	// File. When it returns false the operation ends, without an error.
	Found func(FileInfo) bool
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
