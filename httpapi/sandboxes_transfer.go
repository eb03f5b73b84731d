package httpapi

import (
	"bytes"
	"encoding/base64"
	"io"
	"io/fs"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/internal/text"
)

// putFile is PUT /v1/sandboxes/{id}/files. With a path in the URL the body is the
// content itself, of any size; else it is a JSON object.
func putFile(c *call) error {
	q := c.query()
	name, modeText := q.text("path"), q.text("mode")
	if q.err != nil {
		return q.err
	}
	var content io.Reader = bodyReader{c.r.Body}
	if _, raw := q.values["path"]; !raw {
		var err error
		if name, modeText, content, err = c.fileInBody(); err != nil {
			return err
		}
	}
	mode, err := parseMode(modeText)
	if err != nil {
		return err
	}
	if err := checkPath("path", name); err != nil {
		return err
	}
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	counted := &counter{Reader: content}
	if err := c.upload(sb, func() error { return c.write(sb.Files(), name, counted, mode) }); err != nil {
		return err
	}
	c.reply(http.StatusOK, struct {
		Object string `json:"object"`
		Path   string `json:"path"`
		Size   int64  `json:"size_bytes"`
	}{"file", text.String([]byte(name)), counted.n})
	return nil
}

// upload lets write take the request's body for as long as it comes and the sandbox
// is there.
func (c *call) upload(sb sandbox.Sandbox, write func() error) error {
	c.clearDeadlines()
	defer c.setWriteDeadline()
	defer c.readUntil(sb.Gone())()
	err := write()
	if err != nil {
		select {
		case <-sb.Gone():
			return sandbox.ErrGone
		default:
		}
	}
	return err
}

// fileInBody reads the JSON object that describes a file to be written.
func (c *call) fileInBody() (name, mode string, content io.Reader, err error) {
	var body *string
	encoding := asText
	err = c.decode(map[string]field{
		"path":     intoString(&name),
		"content":  into(&body, "string"),
		"mode":     intoString(&mode),
		"encoding": intoChoice(&encoding, asText, asBase64),
	})
	switch {
	case err != nil:
	case name == "":
		err = missing("path")
	case body == nil:
		err = missing("content")
	case encoding == asBase64:
		var decoded []byte
		if decoded, err = base64.StdEncoding.DecodeString(*body); err != nil {
			err = invalid("content", "is not base64")
		}
		content = strings.NewReader(string(decoded))
	default:
		content = strings.NewReader(*body)
	}
	return name, mode, content, err
}

// noMode stands for a mode that the client left open.
const noMode = fs.FileMode(math.MaxUint32)

// parseMode reads permissions in octal, as in "0644".
func parseMode(s string) (fs.FileMode, error) {
	if s == "" {
		return noMode, nil
	}
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil || n > uint64(fs.ModePerm) {
		return 0, invalid("mode", "must be permissions in octal, as in 0644")
	}
	return fs.FileMode(n), nil
}

// A counter counts what is read.
type counter struct {
	io.Reader
	n int64
}

func (r *counter) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n += int64(n)
	return n, err
}

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
	c.clearWriteDeadline()
	defer c.setWriteDeadline()
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

// readLimit returns a limit of a request as a sandbox.ReadOptions.Limit, which has no
// word for nothing: what comes is cut by the caller.
func readLimit(limit int64) int64 {
	if limit == 0 {
		return 1
	}
	return max(limit, 0)
}

// download answers with the bytes of a part of a file. A browser must not take them
// for a page of the service's.
func (c *call) download(files *sandbox.Files, name string, offset, limit int64) error {
	r, err := files.Open(c.r.Context(), name, &sandbox.ReadOptions{Offset: offset, Limit: readLimit(limit)})
	if err != nil {
		return fileError(err)
	}
	defer r.Close()
	if limit == 0 {
		return c.send("application/octet-stream", http.NoBody)
	}
	return c.send("application/octet-stream", r)
}

// send answers with bytes. When they end early, so does the connection: the client
// would take what it has for the whole.
func (c *call) send(contentType string, r io.Reader) error {
	h := c.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Disposition", "attachment")
	h.Set("Content-Security-Policy", "sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
	// What goes wrong at the beginning is answered as an error.
	first := make([]byte, firstBytes)
	n, err := io.ReadFull(r, first)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		for _, name := range []string{"Content-Disposition", "Content-Security-Policy", "X-Content-Type-Options"} {
			h.Del(name)
		}
		return fileError(err)
	}
	c.setWriteDeadline()
	c.w.WriteHeader(http.StatusOK)
	if _, err = c.w.Write(first[:n]); err == nil {
		_, err = io.Copy(c.w, r)
	}
	if err != nil {
		c.abort = true
		_ = c.rc.Flush() // so that there is a status line before the cut
	}
	return err
}

// firstBytes is how much of an answer is there before it begins.
const firstBytes = 64 << 10
