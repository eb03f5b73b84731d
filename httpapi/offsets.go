package httpapi

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sandbox-go/sandbox"
)

// formatOffsets returns the id of an event: OUT-ERR, where a reader that has seen
// the event goes on, in bytes of each stream.
func formatOffsets(o sandbox.Offsets) string { return fmt.Sprintf("%d-%d", o.Stdout, o.Stderr) }

// parseOffsets is the inverse of formatOffsets.
func parseOffsets(id string) (o sandbox.Offsets, ok bool) {
	out, err, _ := strings.Cut(id, "-")
	for _, part := range []struct {
		text string
		dst  *int64
	}{{out, &o.Stdout}, {err, &o.Stderr}} {
		n, err := strconv.ParseUint(part.text, 10, 63)
		if err != nil {
			return sandbox.Offsets{}, false
		}
		*part.dst = int64(n)
	}
	return o, true
}

// from returns where the client wants to read on: its Last-Event-ID, which a
// browser sends when it connects again, or else the parameter offset.
func (c *call) from() (sandbox.Offsets, error) {
	q := c.query()
	name, id := "offset", q.text("offset")
	if last := c.r.Header.Get("Last-Event-ID"); last != "" {
		name, id = "Last-Event-ID", last
	}
	if q.err != nil || id == "" {
		return sandbox.Offsets{}, q.err
	}
	o, ok := parseOffsets(id)
	if !ok {
		return o, invalid(name, "must be two offsets, OUT-ERR, as in 12-0")
	}
	return o, nil
}
