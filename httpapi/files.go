package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"github.com/sandbox-go/sandbox"
)

const (
	// maxContent is how much of a file one JSON answer holds.
	maxContent = 16 << 20

	// maxEntries is how many entries one listing holds.
	maxEntries = 10_000
)

// content reads a part of a file that fits into one JSON answer. A negative limit is
// no bound.
func (c *call) content(files *sandbox.Files, name string, offset, limit int64) ([]byte, error) {
	content, err := files.ReadFile(c.r.Context(), name, &sandbox.ReadOptions{Offset: offset, Limit: readLimit(limit), MaxSize: maxContent})
	switch {
	case errors.Is(err, sandbox.ErrTooLarge):
		return nil, &Error{
			Status:  http.StatusRequestEntityTooLarge,
			Message: fmt.Sprintf("the file has more than the %d bytes that fit into one answer: read it in parts, by offset and limit", maxContent),
		}
	case err != nil:
		return nil, fileError(err)
	case limit == 0:
		content = content[:0]
	}
	return content, nil
}

// intoPath decodes the name of a file.
func intoPath(dst *string) field {
	return func(value json.RawMessage) string {
		if problem := intoString(dst)(value); problem != "" {
			return problem
		}
		var problem *Error
		if errors.As(checkPath("", *dst), &problem) {
			return problem.Message
		}
		return ""
	}
}

// write writes a file, in a directory that is made when it is missing. A file that is
// replaced keeps its mode, where the client names no other.
func (c *call) write(files *sandbox.Files, name string, content io.Reader, mode fs.FileMode) error {
	opts := &sandbox.WriteOptions{Parents: true}
	switch mode {
	case noMode:
	case 0:
		opts.Mode = 0o600 // until it is done
	default:
		opts.Mode = mode
	}
	err := files.WriteFrom(c.r.Context(), name, content, opts)
	if err == nil && mode == 0 {
		err = files.Chmod(c.r.Context(), name, 0)
	}
	return fileError(err)
}

// Bounds of names, which are Linux's own.
const (
	maxPath     = 4096
	maxFileName = 255
)

// checkPath refuses a name of a file that no file can have.
func checkPath(property, name string) error {
	if strings.ContainsRune(name, 0) {
		return invalid(property, "must not contain a NUL byte")
	}
	if len(name) > maxPath {
		return invalid(property, fmt.Sprintf("must not be longer than %d bytes", maxPath))
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxFileName {
			return invalid(property, fmt.Sprintf("must not have a part longer than %d bytes", maxFileName))
		}
	}
	return nil
}

// fileError returns what an error of a sandbox's files is answered with. It is the
// one table from the causes that sandbox.Files promises to status codes, the same
// in every API: what the name is wrong about is a 400, what the sandbox's user may
// not do a 403.
func fileError(err error) error {
	for _, row := range []struct {
		is     error
		status int
	}{
		{fs.ErrNotExist, http.StatusNotFound},
		{fs.ErrInvalid, http.StatusBadRequest},
		{sandbox.ErrIsDirectory, http.StatusBadRequest},
		{sandbox.ErrNotDirectory, http.StatusBadRequest},
		{sandbox.ErrSpecialFile, http.StatusBadRequest},
		{sandbox.ErrLinkLoop, http.StatusBadRequest},
		{sandbox.ErrArchive, http.StatusBadRequest},
		{fs.ErrPermission, http.StatusForbidden},
		{sandbox.ErrOutside, http.StatusForbidden},
		{sandbox.ErrNotEmpty, http.StatusConflict},
		{fs.ErrExist, http.StatusConflict},
		{sandbox.ErrNoSpace, http.StatusInsufficientStorage},
		{errors.ErrUnsupported, http.StatusNotImplemented},
	} {
		if errors.Is(err, row.is) {
			return &Error{Status: row.status, Message: fileMessage(err), err: err}
		}
	}
	return err
}

// fileMessage returns an error without the sandbox that it happened in.
func fileMessage(err error) string {
	var p *fs.PathError
	switch {
	case errors.As(err, &p):
		return p.Path + ": " + p.Err.Error()
	case errors.Is(err, errors.ErrUnsupported):
		return "this backend does not reach files"
	}
	return err.Error()
}
