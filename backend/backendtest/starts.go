package backendtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend"
)

// startCases are about what does not get as far as running.
func startCases() []Case {
	return []Case{{
		Name:  "a-bad-program-is-a-typed-error",
		Rule:  "A program that is missing, a directory, not executable, or whose interpreter is missing cannot be started, for four different reasons, and nothing is printed.",
		needs: needShell,
		run:   aBadProgramIsATypedError,
	}, {
		Name:  "a-bad-directory-is-a-typed-error",
		Rule:  "A working directory that is missing, a file, or another process's affair is a typed start error, and nothing runs.",
		needs: needShell,
		run:   aBadDirectoryIsATypedError,
	}, {
		Name:  "a-bad-user-is-a-typed-error",
		Rule:  "A user that does not exist is a typed start error, and nothing runs.",
		needs: needShell,
		run:   aBadUserIsATypedError,
	}, {
		Name: "bad-input-is-refused",
		Rule: "NUL in any string, an empty or impossible name of a variable, more environment than Linux takes, a negative time, and nothing to run are refused with one typed error, and nothing starts.",
		run:  badInputIsRefused,
	}, {
		Name:  "a-refused-create-leaves-nothing",
		Rule:  "A setting that the backend cannot honour, or a creation that fails half-way, is an error, and nothing is left behind.",
		needs: needRefused,
		alone: true,
		run:   aRefusedCreateLeavesNothing,
	}, {
		Name: "an-ended-context-starts-nothing",
		Rule: "With a context that has already ended Start returns its error, and nothing runs.",
		run:  anEndedContextStartsNothing,
	}}
}

func aBadProgramIsATypedError(s *subject) {
	s.completed(s.shell(`mkdir dir; : >plain; chmod 644 plain; printf '#!/no/such/interpreter\n' >script; chmod 755 script`), 0, "", "")
	for _, tt := range []struct {
		program string
		reason  backend.Reason
	}{
		{"./missing", backend.NotFound},
		{"no-such-program", backend.NotFound},
		{"/no/such/program", backend.NotFound},
		{"./dir", backend.IsDirectory},
		{"./plain", backend.NotExecutable},
		{"./script", backend.InterpreterNotFound},
	} {
		rec := s.runCommand(sandbox.Command{Argv: []string{tt.program, "argument"}})
		s.failedToStart(tt.program, rec, tt.reason)
	}
	s.completed(s.shell("echo on"), 0, "on\n", "")
}

func aBadDirectoryIsATypedError(s *subject) {
	s.completed(s.shell(": >plain"), 0, "", "")
	dirs := []string{"missing", "plain", "/no/such/dir"}
	if s.h.Proc {
		dirs = append(dirs, "/proc/self/fd/7")
	}
	for _, dir := range dirs {
		s.failedToStart(dir, s.runCommand(sandbox.Command{Shell: "echo >ran", Dir: dir}), backend.BadDirectory)
	}
	s.completed(s.shell("mkdir sub; ls"), 0, "plain\nsub\n", "")
	s.completed(s.runCommand(sandbox.Command{Shell: "ls ..", Dir: "sub"}), 0, "plain\nsub\n", "")
}

func aBadUserIsATypedError(s *subject) {
	s.failedToStart("user", s.runCommand(sandbox.Command{Shell: "echo >ran", User: "no-such-user"}), backend.BadUser)
	s.completed(s.shell("ls"), 0, "", "")
}

func badInputIsRefused(s *subject) {
	ok := s.command(appendTo("ran"))
	for name, change := range map[string]func(*sandbox.Command){
		"nul-in-shell":     func(c *sandbox.Command) { c.Shell = "echo \x00" },
		"nul-in-argv":      func(c *sandbox.Command) { c.Shell, c.Argv = "", []string{"echo", "\x00"} },
		"nul-in-dir":       func(c *sandbox.Command) { c.Dir = "\x00" },
		"nul-in-user":      func(c *sandbox.Command) { c.User = "\x00" },
		"nul-in-value":     func(c *sandbox.Command) { c.Env = map[string]string{"A": "\x00"} },
		"nul-in-name":      func(c *sandbox.Command) { c.Env = map[string]string{"A\x00": "b"} },
		"empty-name":       func(c *sandbox.Command) { c.Env = map[string]string{"": "b"} },
		"name-with-equals": func(c *sandbox.Command) { c.Env = map[string]string{"A=B": "c"} },
		"value-too-long":   func(c *sandbox.Command) { c.Env = map[string]string{"A": strings.Repeat("x", 128<<10)} },
		"env-too-large": func(c *sandbox.Command) {
			c.Env = make(map[string]string)
			for i := range 60_000 {
				c.Env[fmt.Sprintf("NAME_%d", i)] = "a value of some length"
			}
		},
		"negative-timeout": func(c *sandbox.Command) { c.Timeout = -1 },
		"negative-grace":   func(c *sandbox.Command) { c.Grace = -1 },
		"nothing":          func(c *sandbox.Command) { c.Shell, c.Argv = "", nil },
		"both":             func(c *sandbox.Command) { c.Shell, c.Argv = "echo", []string{"echo"} },
	} {
		cmd := ok
		change(&cmd)
		var invalid *sandbox.InvalidError
		if e, err := s.Start(s.ctx, cmd); !errors.As(err, &invalid) || e != nil {
			s.Errorf("%s: want an *InvalidError, got %v", name, err)
		}
	}
	if n := s.size("ran"); n != 0 {
		s.Errorf("%d commands ran, want none", n)
	}
}

func aRefusedCreateLeavesNothing(s *subject) {
	s.completed(s.run(exit(0)), 0, "", "")
	var use usage
	for i := range full(100, 10) {
		if i == 2 {
			use = measure()
		}
		sb, err := sandbox.New(s.ctx, s.backend, &sandbox.Options{Config: *s.h.Refused})
		var typed *sandbox.Error
		if !errors.As(err, &typed) || sb != nil {
			s.Fatalf("want an *Error, got %v", err)
		}
	}
	s.flat(use)
	s.completed(s.run(exit(0)), 0, "", "")
}

func anEndedContextStartsNothing(s *subject) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.Start(ctx, s.command(appendTo("ran"))); !errors.Is(err, ctx.Err()) {
		s.Errorf("start: %v", err)
	}
	if n := s.size("ran"); n != 0 {
		s.Errorf("%d commands ran, want none", n)
	}
}
