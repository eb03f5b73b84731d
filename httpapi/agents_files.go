package httpapi

import (
	"math"
	"net/http"
	"strings"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/internal/jsonstream"
)

// agentFiles returns the files of the sandbox of the agent, which is made when there
// is none.
func (c *call) agentFiles() (*sandbox.Files, error) {
	key, err := c.key()
	if err != nil {
		return nil, err
	}
	sb, err := c.sandboxOf(key)
	if err != nil {
		return nil, err
	}
	return sb.Files(), nil
}

// readForAgent is POST /agents/{agentId}/sandbox/read.
func readForAgent(c *call) error {
	var (
		name          string
		limit, offset int
	)
	err := c.decode(map[string]field{
		"path":   intoPath(&name),
		"limit":  orNull(intoInteger(&limit, 0, math.MaxInt32)),
		"offset": orNull(intoInteger(&offset, 0, maxOffset)),
	})
	switch {
	case err != nil:
		return err
	case name == "":
		return missing("path")
	case limit == 0:
		limit = -1 // all
	}
	c.clearWriteDeadline()
	defer c.setWriteDeadline()
	files, err := c.agentFiles()
	if err != nil {
		return err
	}
	content, err := c.content(files, name, int64(offset), int64(limit))
	if err != nil {
		return err
	}
	c.reply(http.StatusOK, struct {
		BytesRead int             `json:"bytesRead"`
		Content   jsonstream.Text `json:"content"`
	}{len(content), content})
	return nil
}

// maxOffset is the largest integer that every JSON number keeps exact.
const maxOffset = 1<<53 - 1

// writeForAgent is POST /agents/{agentId}/sandbox/write.
func writeForAgent(c *call) error {
	var (
		name    string
		content *string
	)
	err := c.decode(map[string]field{"path": intoPath(&name), "content": into(&content, "string")})
	switch {
	case err != nil:
		return err
	case name == "":
		return missing("path")
	case content == nil:
		return missing("content")
	}
	c.clearWriteDeadline()
	defer c.setWriteDeadline()
	files, err := c.agentFiles()
	if err != nil {
		return err
	}
	if err := c.write(files, name, strings.NewReader(*content), noMode); err != nil {
		return err
	}
	c.reply(http.StatusOK, struct {
		Success bool `json:"success"`
	}{true})
	return nil
}
