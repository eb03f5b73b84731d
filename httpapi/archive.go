package httpapi

import "net/http"

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
	return c.send("application/x-tar", r)
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
