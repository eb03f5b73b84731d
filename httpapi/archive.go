package httpapi

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// archivePath returns what an archive is made of, or unpacked into.
func (c *call) archivePath() (string, error) {
	q := c.query()
	name := q.text("path")
	if name == "" {
		name = "."
	}
	if q.err != nil {
		return "", q.err
	}
	return name, checkPath("path", name)
}

// getArchive is GET /v1/sandboxes/{id}/files/archive: a tree as tar.
func getArchive(c *call) error {
	name, err := c.archivePath()
	if err != nil {
		return err
	}
	files, err := c.files()
	if err != nil {
		return err
	}
	c.lift()
	defer c.limit()
	r, err := files.ReadTar(c.r.Context(), name)
	if err != nil {
		return fileError(err)
	}
	defer r.Close()
	if !c.r.ProtoAtLeast(1, 1) {
		return c.send("application/x-tar", r)
	}
	return c.sendArchive(r)
}

// archiveTrailer is the trailer field that says why an archive is not complete.
const archiveTrailer = "Sandbox-Error"

// sendArchive answers with an archive. When it breaks off, a trailer says why, which
// a connection that is cut could not. So that a tar program notices it too, what it
// gets last is no archive: GNU tar takes one without an end marker for whole.
func (c *call) sendArchive(r io.Reader) error {
	c.w.Header().Set("Trailer", archiveTrailer)
	err := c.send("application/x-tar", r)
	if c.w.status == 0 {
		c.w.Header().Del("Trailer")
		return err
	}
	if err == nil || c.w.failed != nil {
		return err
	}
	c.abort, c.broken = false, true
	c.w.Header().Set(archiveTrailer, headerText(c.api.explain(fileError(err)).Message))
	const block = 512
	_, _ = c.w.Write(bytes.Repeat([]byte("!"), int(block-c.w.sent%block)+2*block))
	return err
}

// headerText returns text as a header field can hold it.
func headerText(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}

// putArchive is PUT /v1/sandboxes/{id}/files/archive: a tree from tar, of any size.
func putArchive(c *call) error {
	name, err := c.archivePath()
	if err != nil {
		return err
	}
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	err = c.upload(sb, func() error {
		return fileError(sb.Files().WriteTar(c.r.Context(), name, bodyReader{c.r.Body}))
	})
	if err != nil {
		return err
	}
	c.reply(http.StatusOK, struct {
		Success bool   `json:"success"`
		Path    string `json:"path"`
	}{true, name})
	return nil
}
