package kubernetes

import (
	"strings"
	"time"
)

// SendScript is what takes the agent in through the API server, into a directory.
func SendScript(dir string) string { return strings.ReplaceAll(send, agentDir, dir) }

// SetPings has agents asked whether they are there so often, and answer within that time. It
// is for a backend without sandboxes.
func (b *Backend) SetPings(every, within time.Duration) { b.pingEvery, b.pingTime = every, within }
