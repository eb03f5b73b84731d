package httpapi

import (
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
	c.liftAll()
	defer c.limit()
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
	var (
		body     *string
		encoding = asText
	)
	err = c.decode(map[string]field{
		"path":     intoString(&name),
		"content":  into(&body, "string"),
		"mode":     intoString(&mode),
		"encoding": intoString(&encoding),
	})
	switch {
	case err != nil:
	case name == "":
		err = missing("path")
	case body == nil:
		err = missing("content")
	case encoding == asText:
		content = strings.NewReader(*body)
	case encoding == asBase64:
		var decoded []byte
		if decoded, err = base64.StdEncoding.DecodeString(*body); err != nil {
			err = invalid("content", "is not base64")
		}
		content = strings.NewReader(string(decoded))
	default:
		err = invalid("encoding", "must be one of "+asText+", "+asBase64)
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
