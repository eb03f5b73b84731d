package fake

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sandbox-go/sandbox/backend"
)

// A Handler is what a command does. It runs in a goroutine of its own and returns
// the exit code. When the process is killed, the handler ends within the next or
// the present call of one of p's methods, as by runtime.Goexit: deferred
// functions run. A handler that waits for something else must watch p.Done;
// while it does not return, its process survives the kill.
type Handler func(p *Process) int

// Result returns a Handler that prints and exits.
func Result(code int, stdout, stderr string) Handler {
	return func(p *Process) int {
		io.WriteString(p.Stdout, stdout)
		io.WriteString(p.Stderr, stderr)
		return code
	}
}

// A Command is what the backend was asked to start. It must not be modified.
type Command struct {
	Sandbox string // the sandbox's id
	Shell   string
	Argv    []string
	Dir     string
	Env     []string // complete, as the process sees it
	User    string
}

// String returns the shell text, or the arguments joined by single spaces.
func (c *Command) String() string {
	if c.Shell != "" {
		return c.Shell
	}
	return strings.Join(c.Argv, " ")
}

// Getenv returns the value of an environment variable, or the empty string.
func (c *Command) Getenv(key string) string {
	for _, kv := range c.Env {
		if k, v, _ := strings.Cut(kv, "="); k == key {
			return v
		}
	}
	return ""
}

type rule struct {
	match   func(*Command) bool
	handler Handler
}

// Handle makes h what the command of that text does: a shell text, or arguments
// joined by single spaces. Of several rules that match, the latest holds.
//
// A command without a rule is what it is in an empty sandbox: not found. A shell
// text exits with 127 and says so on stderr; arguments fail to start with
// backend.NotFound.
func (b *Backend) Handle(text string, h Handler) {
	b.HandleFunc(func(c *Command) bool { return c.String() == text }, h)
}

// HandleFunc makes h what every command does that match accepts. Match is called
// for each start, after Options.Start; it may be called concurrently.
func (b *Backend) HandleFunc(match func(*Command) bool, h Handler) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rules = append(b.rules, rule{match, h})
}

// handler returns what cmd does.
func (b *Backend) handler(cmd *Command) (Handler, error) {
	b.mu.Lock()
	rules := slices.Clone(b.rules)
	b.mu.Unlock()
	for _, r := range slices.Backward(rules) {
		if r.match(cmd) {
			return r.handler, nil
		}
	}
	if cmd.Shell != "" {
		return Result(127, "", fmt.Sprintf("fake: no handler for command: %s\n", cmd.Shell)), nil
	}
	return nil, &backend.StartError{
		Reason: backend.NotFound,
		Path:   cmd.Argv[0],
		Detail: fmt.Sprintf("fake: no handler for command: %s", cmd),
	}
}
