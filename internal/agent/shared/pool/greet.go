//go:build linux && (amd64 || arm64)

package pool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/proc"
)

// greetTime is how long a process of the agent may take to start.
const greetTime = 20 * time.Second

// Greet greets a process of the agent that has just been started, at the other end of
// conn. One that cannot start says why in place of its hello: the error is a
// *backend.StartError then.
func Greet(conn *net.UnixConn) error {
	conn.SetReadDeadline(time.Now().Add(greetTime))
	defer conn.SetReadDeadline(time.Time{})
	var said bytes.Buffer
	err := wire.Greet(struct {
		io.Reader
		io.Writer
	}{io.TeeReader(conn, &said), conn})
	if err == nil {
		return nil
	}
	if errors.Is(err, wire.ErrVersion) {
		return &backend.StartError{Reason: backend.CannotStart, Detail: "a process of the agent is of another version of it"}
	}
	io.CopyN(&said, conn, maxSaid)
	return refusal(said.String(), err)
}

// maxSaid is as much as is read of why a process cannot start, in bytes.
const maxSaid = 4 << 10

// A wordlessError is of a process that ended before it had said anything. It may have been
// killed.
type wordlessError struct{ *backend.StartError }

func (e wordlessError) Unwrap() error { return e.StartError }

// refusal makes an error of what a process said that did not start.
func refusal(said string, err error) error {
	said, _, _ = strings.Cut(said, "\n")
	own, ok := strings.CutPrefix(said, wire.StderrPrefix)
	switch {
	case said == "":
		return wordlessError{&backend.StartError{
			Reason: backend.NoResources,
			Detail: fmt.Sprintf("a process of the agent ended without a word: %v: it may need more memory", err),
		}}
	case !ok: // the Go runtime found no thread or no memory
		return &backend.StartError{
			Reason: backend.NoResources,
			Errno:  int(syscall.EAGAIN),
			Detail: fmt.Sprintf("a process of the agent ended: %q: raise the limit of processes or of memory", said),
		}
	}
	for _, errno := range proc.Scarce {
		if strings.Contains(own, errno.Error()) {
			return &backend.StartError{Reason: backend.NoResources, Errno: int(errno), Detail: own}
		}
	}
	return &backend.StartError{Reason: backend.CannotStart, Detail: own}
}
