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
		fields: map[string]string{
			"Key.Name":      "agentId",
			"Command":       "command",
			"Command.Shell": "command",
			"Command.Dir":   "workdir",
		},
		route:  routeAgents,
		status: func(s statuses) int { return s.agents },
		shape:  agentError,
	}
}

func routeAgents(path []string) (methods, error) {
	if len(path) == 3 && path[0] != "" && slices.Equal(path[1:], []string{"sandbox", "exec"}) {
		return methods{http.MethodPost: execForAgent}, nil
	}
	return nil, &Error{Status: http.StatusNotFound, Message: "there is no such route: only /agents/{agentId}/sandbox/exec is"}
}

func agentError(e *Error) any {
	return struct {
		Error string `json:"error"`
		Code  string `json:"code"`
	}{e.Error(), strings.ToUpper(e.code())}
}

type agentResult struct {
	ExitCode     *int   `json:"exitCode"`
	Handle       string `json:"handle"`
	State        string `json:"state"`
	Stderr       string `json:"stderr"`
	StderrOffset int    `json:"stderrOffset"`
	Stdout       string `json:"stdout"`
	StdoutOffset int    `json:"stdoutOffset"`
}

// execForAgent is POST /agents/{agentId}/sandbox/exec.
func execForAgent(c *call) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	cmd, err := c.agentCommand()
	if err != nil {
		return err
	}
	rec, err := c.runIn(key, cmd)
	if err != nil {
		return err
	}
	if err := c.api.failure(rec); err != nil {
		if start := (*sandbox.StartError)(nil); !errors.As(err, &start) {
			// The command may have done anything: it must not be repeated, which
			// the clients do with what has failed unless they are told.
			c.w.Header().Set("X-Should-Retry", "false")
		}
		return err
	}
	c.reply(http.StatusOK, agentResult{
		ExitCode:     rec.ExitCode,
		Handle:       rec.ID,
		State:        "exited",
		Stderr:       text.String(rec.Stderr.Head),
		StderrOffset: len(rec.Stderr.Head),
		Stdout:       text.String(rec.Stdout.Head),
		StdoutOffset: len(rec.Stdout.Head),
	})
	return nil
}

// agentCommand reads the command that the request describes.
func (c *call) agentCommand() (sandbox.Command, error) {
	var (
		cmd     = sandbox.Command{Wait: sandbox.WaitExit}
		timeout = float64(agentTimeout)
	)
	err := c.decode(map[string]field{
		"command":   intoCommand(&cmd.Shell),
		"maxBuffer": intoInteger(&cmd.MaxOutput, 0, maxAgentBuffer),
		"timeout":   orNull(intoSeconds(&timeout)),
		"workdir":   orNull(intoString(&cmd.Dir)),
	})
	if err != nil {
		return cmd, err
	}
	if cmd.Shell == "" {
		return cmd, missing("command")
	}
	cmd.Timeout = time.Duration(math.Ceil(timeout * float64(time.Second)))
	return cmd, nil
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
