package httpapi

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/internal/jsonstream"
)

// roomTimeout is how long a command of a room may take: the document has no
// property for it.
const roomTimeout = 5 * time.Minute

func newRooms(s *service) *api {
	return &api{
		service:      s,
		name:         Rooms,
		prefix:       "/api/rooms",
		authenticate: s.opts.AuthenticateRooms,
		fields:       map[sandbox.Field]string{fieldKeyName: "roomID", sandbox.FieldCommand: "cmd", sandbox.FieldShell: "cmd"},
		route:        routeRooms,
		status:       func(s statuses) int { return s.rooms },
		shape:        roomError,
	}
}

func routeRooms(path []string) (methods, error) {
	switch {
	case len(path) == 0 || path[0] == "":
		return nil, &Error{Status: http.StatusNotFound, Message: "not found - room ID is required"}
	case len(path) == 1:
		return methods{http.MethodDelete: removeRoom}, nil
	case slices.Equal(path[1:], []string{"sandbox", "exec"}):
		return methods{http.MethodPost: execInRoom}, nil
	}
	return nil, &Error{Status: http.StatusNotFound, Message: "not found - only /sandbox/exec is supported"}
}

type roomErrorBody struct {
	Error   string              `json:"error"`
	Details map[string][]string `json:"details,omitzero"`
}

func roomError(e *Error) any {
	switch e.Status {
	case http.StatusBadRequest:
		details := map[string][]string{}
		if e.field != "" {
			details[e.field] = []string{e.Message}
		}
		return roomErrorBody{Error: "invalid request", Details: details}
	case http.StatusInternalServerError:
		return roomErrorBody{Error: "sandbox execution failed: " + e.Message}
	}
	return roomErrorBody{Error: e.Message}
}

type roomAnswer struct {
	Result      roomResult `json:"result"`
	SandboxName string     `json:"sandboxName"`
}

type roomResult struct {
	Stdout    jsonstream.Text `json:"stdout"`
	Stderr    jsonstream.Text `json:"stderr"`
	Success   bool            `json:"success"`
	ExitCode  int             `json:"exitCode"`
	Command   string          `json:"command"`
	Duration  int64           `json:"duration"` // milliseconds
	Timestamp time.Time       `json:"timestamp"`

	// Of more output than is stored, Stdout and Stderr have the beginning.
	Truncated   bool  `json:"truncated"`
	StdoutBytes int64 `json:"stdoutBytes"`
	StderrBytes int64 `json:"stderrBytes"`
}

// execInRoom is POST /api/rooms/{roomID}/sandbox/exec.
func execInRoom(c *call) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	cmd := sandbox.Command{Wait: sandbox.WaitExit, Timeout: roomTimeout}
	if err := c.decode(map[string]field{"cmd": intoCommand(&cmd.Shell)}); err != nil {
		return err
	}
	if cmd.Shell == "" {
		return missing("cmd")
	}
	rec, err := c.runIn(key, cmd)
	if err != nil {
		return err
	}
	if err := c.api.failure(rec); err != nil {
		return err
	}
	if rec.ExitCode == nil {
		return errors.New("the command was cancelled")
	}
	c.reply(http.StatusOK, roomAnswer{
		Result: roomResult{
			Stdout:      rec.Stdout.Head,
			Stderr:      rec.Stderr.Head,
			Success:     *rec.ExitCode == 0,
			ExitCode:    *rec.ExitCode,
			Command:     cmd.Shell,
			Duration:    rec.Duration.Milliseconds(),
			Timestamp:   rec.StartedAt.UTC(),
			Truncated:   cutAtHead(rec),
			StdoutBytes: rec.Stdout.Total,
			StderrBytes: rec.Stderr.Total,
		},
		SandboxName: sandboxName(key),
	})
	return nil
}

// removeRoom is DELETE /api/rooms/{roomID}.
func removeRoom(c *call) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	if err := c.remove(key); err != nil && !errors.Is(err, sandbox.ErrNotFound) {
		return err
	}
	c.reply(http.StatusOK, struct {
		Success     bool   `json:"success"`
		SandboxName string `json:"sandboxName"`
	}{true, sandboxName(key)})
	return nil
}

func sandboxName(key sandbox.Key) string { return "sandbox-" + key.Name }
