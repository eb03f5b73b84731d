package httpapi

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/internal/jsonstream"
	"github.com/sandbox-go/sandbox/internal/text"
)

// The ways to tell content in JSON.
const (
	asText   = "utf-8"
	asBase64 = "base64"
)

// routeFiles returns the endpoints of a sandbox's files, by the path after "files".
func routeFiles(path []string) (methods, error) {
	if len(path) == 0 {
		return methods{http.MethodGet: getFile, http.MethodPut: putFile, http.MethodDelete: deleteFile}, nil
	}
	if len(path) == 1 {
		switch path[0] {
		case "archive":
			return methods{http.MethodGet: getArchive, http.MethodPut: putArchive}, nil
		case "mkdir":
			return methods{http.MethodPost: makeDirectory}, nil
		case "rename":
			return methods{http.MethodPost: renameFile}, nil
		}
	}
	return nil, errNoRoute
}

// files returns the files of the sandbox that the path names.
func (c *call) files() (*sandbox.Files, error) {
	sb, err := c.sandbox()
	if err != nil {
		return nil, err
	}
	return sb.Files(), nil
}

// getFile is GET /v1/sandboxes/{id}/files: a file's content, a directory's list, or
// with stat=true what there is to know about either.
func getFile(c *call) error {
	q := c.query()
	name := q.required("path")
	if q.err == nil {
		q.err = checkPath("path", name)
	}
	var (
		list, stat, raw = q.flag("list"), q.flag("stat"), q.flag("raw")
		recursive       = q.flag("recursive")
		encoding        = q.choice("encoding", asText, asBase64)
		offset          = q.integer("offset", 0, 0, math.MaxInt64)
		limit           = q.integer("limit", -1, 0, math.MaxInt64)
	)
	if q.err != nil {
		return q.err
	}
	files, err := c.files()
	if err != nil {
		return err
	}
	c.clearWriteDeadline()
	defer c.setWriteDeadline()
	switch {
	case list:
		return c.list(files, name, recursive)
	case stat:
		return c.stat(files, name)
	case raw:
		return c.download(files, name, offset, limit)
	}
	content, err := c.content(files, name, offset, limit)
	if err != nil {
		return err
	}
	answer := struct {
		Object   string `json:"object"`
		Path     string `json:"path"`
		Content  any    `json:"content"`
		Encoding string `json:"encoding"`
		Size     int    `json:"size_bytes"`
		Lossy    bool   `json:"lossy,omitempty"`
	}{Object: "file", Path: text.String([]byte(name)), Encoding: encoding, Size: len(content)}
	if encoding == asBase64 {
		answer.Content = content // as encoding/json has bytes
	} else {
		answer.Content, answer.Lossy = jsonstream.Text(content), !utf8.Valid(content)
	}
	c.reply(http.StatusOK, answer)
	return nil
}

// An entry is what there is to know about a file.
type entry struct {
	Name       string    `json:"name"`
	NameBase64 string    `json:"name_base64,omitempty"` // where Name is not exact
	Type       string    `json:"type"`
	Size       int64     `json:"size_bytes"`
	Mode       string    `json:"mode"`
	ModifiedAt time.Time `json:"modified_at"`
	Target     string    `json:"target,omitempty"`
}

func describeFile(info sandbox.FileInfo) entry {
	e := entry{
		Name:       text.String([]byte(info.Path)),
		Type:       fileType(info.Mode),
		Size:       info.Size,
		Mode:       fmt.Sprintf("%04o", info.Mode.Perm()),
		ModifiedAt: info.ModTime.UTC(),
		Target:     text.String([]byte(info.Target)),
	}
	if !utf8.ValidString(info.Path) {
		e.NameBase64 = base64.StdEncoding.EncodeToString([]byte(info.Path))
	}
	return e
}

func fileType(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "dir"
	case mode.IsRegular():
		return "file"
	case mode&fs.ModeSymlink != 0:
		return "symlink"
	}
	return "special"
}

// list answers with a directory's entries. Their names are relative to it.
func (c *call) list(files *sandbox.Files, name string, recursive bool) error {
	answer := struct {
		Object  string  `json:"object"`
		Path    string  `json:"path"`
		Entries []entry `json:"entries"`
		HasMore bool    `json:"has_more"`
	}{Object: "list", Path: text.String([]byte(name)), Entries: []entry{}}
	for info, err := range files.List(c.r.Context(), name, &sandbox.ListOptions{Recursive: recursive}) {
		if err != nil {
			return fileError(err)
		}
		if len(answer.Entries) == maxEntries {
			answer.HasMore = true
			break
		}
		answer.Entries = append(answer.Entries, describeFile(info))
	}
	c.reply(http.StatusOK, answer)
	return nil
}

func (c *call) stat(files *sandbox.Files, name string) error {
	info, err := files.Stat(c.r.Context(), name)
	if err != nil {
		return fileError(err)
	}
	c.reply(http.StatusOK, describeFile(info))
	return nil
}

// deleteFile is DELETE /v1/sandboxes/{id}/files.
func deleteFile(c *call) error {
	q := c.query()
	name, recursive := q.required("path"), q.flag("recursive")
	if q.err == nil {
		q.err = checkPath("path", name)
	}
	if q.err != nil {
		return q.err
	}
	return c.change(name, func(files *sandbox.Files) error {
		return files.Remove(c.r.Context(), name, &sandbox.RemoveOptions{Recursive: recursive})
	})
}

// makeDirectory is POST /v1/sandboxes/{id}/files/mkdir.
func makeDirectory(c *call) error {
	var name, modeText string
	if err := c.decode(map[string]field{"path": intoPath(&name), "mode": intoString(&modeText)}); err != nil {
		return err
	}
	mode, err := parseMode(modeText)
	switch {
	case err != nil:
		return err
	case name == "":
		return missing("path")
	case mode == noMode:
		mode = 0o755
	}
	return c.change(name, func(files *sandbox.Files) error { return files.MkdirAll(c.r.Context(), name, mode) })
}

// renameFile is POST /v1/sandboxes/{id}/files/rename.
func renameFile(c *call) error {
	var from, to string
	if err := c.decode(map[string]field{"from": intoPath(&from), "to": intoPath(&to)}); err != nil {
		return err
	}
	switch "" {
	case from:
		return missing("from")
	case to:
		return missing("to")
	}
	return c.change(to, func(files *sandbox.Files) error { return files.Rename(c.r.Context(), from, to) })
}

// change does something to a file, and answers with its name.
func (c *call) change(name string, do func(*sandbox.Files) error) error {
	files, err := c.files()
	if err != nil {
		return err
	}
	c.clearWriteDeadline()
	defer c.setWriteDeadline()
	if err := do(files); err != nil {
		return fileError(err)
	}
	c.reply(http.StatusOK, struct {
		Success bool   `json:"success"`
		Path    string `json:"path"`
	}{true, text.String([]byte(name))})
	return nil
}
