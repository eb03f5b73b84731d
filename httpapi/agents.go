package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/internal/jsonstream"
	"github.com/sandbox-go/sandbox/internal/text"
)

const (
	agentTimeout    = 300  // seconds, where the request has none
	maxAgentTimeout = 3600 // seconds
	maxAgentBuffer  = 16 << 20
)

func newAgents(s *service) *api {
	return &api{
		service:      s,
		name:         Agents,
		prefix:       "/agents",
		authenticate: s.opts.AuthenticateAgents,
		fields: map[sandbox.Field]string{
			fieldKeyName:           "agentId",
			sandbox.FieldCommand:   "command",
			sandbox.FieldShell:     "command",
			sandbox.FieldDir:       "workdir",
			sandbox.FieldOpenStdin: "openStdin",
			sandbox.FieldName:      "path",
		},
		route:  routeAgents,
		status: func(s statuses) int { return s.agents },
		shape:  agentError,
	}
}

func routeAgents(path []string) (methods, error) {
	if len(path) >= 3 && !slices.Contains(path, "") && path[1] == "sandbox" {
		switch rest := path[3:]; {
		case path[2] == "exec" && len(rest) == 0:
			return methods{http.MethodPost: execForAgent}, nil
		case path[2] == "exec" && len(rest) == 1:
			return methods{http.MethodGet: readOn, http.MethodDelete: killForAgent}, nil
		case path[2] == "exec" && len(rest) == 2 && rest[1] == "stdin":
			return methods{http.MethodPost: feedForAgent}, nil
		case path[2] == "read" && len(rest) == 0:
			return methods{http.MethodPost: readForAgent}, nil
		case path[2] == "write" && len(rest) == 0:
			return methods{http.MethodPost: writeForAgent}, nil
		}
	}
	return nil, &Error{Status: http.StatusNotFound, Message: "there is no such route: /agents/{agentId}/sandbox/exec, …/sandbox/read and …/sandbox/write are"}
}

func agentError(e *Error) any {
	return struct {
		Error string `json:"error"`
		Code  string `json:"code"`
	}{e.Error(), strings.ToUpper(e.code())}
}

type agentResult struct {
	ExitCode     *int            `json:"exitCode"`
	Handle       string          `json:"handle"`
	State        string          `json:"state"`
	Stderr       jsonstream.Text `json:"stderr"`
	StderrOffset int64           `json:"stderrOffset"`
	Stdout       jsonstream.Text `json:"stdout"`
	StdoutOffset int64           `json:"stdoutOffset"`

	// Of more output than maxBuffer, the rest is not stored.
	Truncated   bool  `json:"truncated"`
	StdoutBytes int64 `json:"stdoutBytes"`
	StderrBytes int64 `json:"stderrBytes"`
}

// describeForAgent returns what rec has stored from there on.
func describeForAgent(rec *sandbox.Execution, from sandbox.Offsets) agentResult {
	result := agentResult{
		ExitCode:    rec.ExitCode,
		Handle:      rec.ID,
		State:       "exited",
		Truncated:   cutAtHead(rec),
		StdoutBytes: rec.Stdout.Total,
		StderrBytes: rec.Stderr.Total,
	}
	if rec.Status == sandbox.Running {
		result.State = "running"
	}
	result.Stdout, result.StdoutOffset = readFrom(rec, rec.Stdout, from.Stdout)
	result.Stderr, result.StderrOffset = readFrom(rec, rec.Stderr, from.Stderr)
	return result
}

// readFrom returns the text of out from an offset on, and the offset of the first byte
// that is not in it: one that is not stored, or of a character that is not complete
// yet.
func readFrom(rec *sandbox.Execution, out sandbox.Output, from int64) (jsonstream.Text, int64) {
	if from >= int64(len(out.Head)) {
		return nil, from
	}
	stored := out.Head[from:]
	if rec.Status == sandbox.Running {
		stored = stored[:text.Whole(stored)]
	}
	return stored, from + int64(len(stored))
}

// An agentRequest is the body of POST /agents/{agentId}/sandbox/exec.
type agentRequest struct {
	cmd   sandbox.Command
	yield *float64 // seconds after which the answer is that it runs; nil is never
}

// execForAgent is POST /agents/{agentId}/sandbox/exec.
func execForAgent(c *call) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	req, err := c.agentRequest()
	if err != nil {
		return err
	}
	var rec *sandbox.Execution
	if req.yield == nil {
		rec, err = c.runIn(key, req.cmd)
	} else {
		rec, err = c.startIn(key, req.cmd, seconds(*req.yield))
	}
	if err != nil {
		return err
	}
	if err := c.agentFailure(rec); err != nil {
		return err
	}
	c.reply(http.StatusOK, describeForAgent(rec, sandbox.Offsets{}))
	return nil
}

// agentFailure is api.failure, and tells the client whether to try again.
func (c *call) agentFailure(rec *sandbox.Execution) error {
	err := c.api.failure(rec)
	if start := (*sandbox.StartError)(nil); err != nil && !errors.As(err, &start) {
		// The command may have done anything: it must not be repeated, which the
		// clients do with what has failed unless they are told.
		c.w.Header().Set("X-Should-Retry", "false")
	}
	return err
}

// agentRequest reads the command that the request describes.
func (c *call) agentRequest() (*agentRequest, error) {
	var (
		req     = &agentRequest{cmd: sandbox.Command{Wait: sandbox.WaitExit}}
		timeout = float64(agentTimeout)
		yield   float64
	)
	err := c.decode(map[string]field{
		"command":   intoCommand(&req.cmd.Shell),
		"maxBuffer": intoInteger(&req.cmd.MaxOutput, 0, maxAgentBuffer),
		"timeout":   orNull(intoSeconds(&timeout)),
		"workdir":   orNull(intoString(&req.cmd.Dir)),
		"openStdin": intoBool(&req.cmd.OpenStdin),
		"yield": orNull(func(value json.RawMessage) string {
			req.yield = &yield
			return intoYield(&yield)(value)
		}),
	})
	switch {
	case err != nil:
		return nil, err
	case req.cmd.Shell == "":
		return nil, missing("command")
	case req.cmd.OpenStdin && req.yield == nil:
		return nil, invalid("openStdin", "needs yield: nobody could write to the command before it has ended")
	}
	req.cmd.Timeout = seconds(timeout)
	return req, nil
}

// seconds returns a time span, rounded up.
func seconds(s float64) time.Duration { return time.Duration(math.Ceil(s * float64(time.Second))) }

// intoYield decodes a time span in seconds that may be none.
func intoYield(dst *float64) field {
	return func(value json.RawMessage) string {
		if problem := intoNumber(dst)(value); problem != "" {
			return problem
		}
		if *dst < 0 || *dst > maxAgentTimeout {
			return fmt.Sprintf("must be at least 0 and at most %d seconds", maxAgentTimeout)
		}
		return ""
	}
}

// intoSeconds decodes a time span in seconds.
func intoSeconds(dst *float64) field {
	return func(value json.RawMessage) string {
		if problem := intoNumber(dst)(value); problem != "" {
			return problem
		}
		if *dst <= 0 || *dst > maxAgentTimeout {
			return fmt.Sprintf("must be more than 0 and at most %d seconds", maxAgentTimeout)
		}
		return ""
	}
}
