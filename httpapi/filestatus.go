package httpapi

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/sandbox-go/sandbox"
)

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
