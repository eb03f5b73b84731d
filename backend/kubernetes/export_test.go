package kubernetes

import "strings"

// SendScript is what takes the agent in through the API server, into a directory.
func SendScript(dir string) string { return strings.ReplaceAll(send, agentDir, dir) }
