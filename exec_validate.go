package sandbox

import (
	"path"
	"strings"
)

const (
	// maxShell is how long shell text may be, in bytes.
	maxShell = 1 << 20

	// maxString is how long Linux lets one argument, or one variable with its name,
	// be: MAX_ARG_STRLEN, with the NUL byte at its end (execve(2)).
	maxString = 128<<10 - 1

	// maxStrings is how much all arguments and variables may take: of the quarter
	// of the stack's limit that execve(2) documents, 2 MiB by default, what is left
	// beside the environment of the image.
	maxStrings = 2<<20 - 128<<10
)

// Validate returns the *InvalidError that a start of c would be refused with, or
// nil. Start calls it; call it to refuse a command before there is a sandbox.
func (c *Command) Validate() error {
	switch {
	case c.Shell == "" && len(c.Argv) == 0:
		return invalidf(FieldCommand, "nothing to run: set Shell or Argv")
	case c.Shell != "" && len(c.Argv) > 0:
		return invalidf(FieldCommand, "set either Shell or Argv, not both")
	case len(c.Shell) > maxShell:
		return invalidf(FieldShell, "%d bytes are too long, at most %d are taken: put the text into a file, or stream it to stdin", len(c.Shell), maxShell)
	case len(c.Argv) > 0 && c.Argv[0] == "":
		return invalidf(FieldArgv, "the program's name is empty")
	case c.Timeout < 0:
		return invalidf(FieldTimeout, "%v is negative: leave it 0 for no bound", c.Timeout)
	case c.Grace < 0:
		return invalidf(FieldGrace, "%v is negative: leave it 0 for no SIGTERM", c.Grace)
	case c.Wait != WaitOutput && c.Wait != WaitExit:
		return invalidf(FieldWait, "%d is no WaitMode", c.Wait)
	}
	for _, arg := range c.Argv {
		if len(arg) > maxString {
			return invalidf(FieldArgv, "an argument of %d bytes is too long, at most %d are taken: stream it to stdin, or put it into a file", len(arg), maxString)
		}
		if err := noNUL(FieldArgv, arg); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		field Field
		value string
	}{
		{FieldShell, c.Shell}, {FieldDir, c.Dir}, {FieldUser, c.User},
	} {
		if err := noNUL(f.field, f.value); err != nil {
			return err
		}
	}
	if err := validateEnv(FieldEnv, c.Env); err != nil {
		return err
	}
	return c.validateSize(nil)
}

// validateSize refuses what no program can be given beside the environment of its
// sandbox.
func (c *Command) validateSize(sandboxEnv map[string]string) error {
	field := FieldEnv
	if len(c.Env) == 0 && len(c.Argv) > 0 {
		field = FieldArgv
	}
	size := len(c.Shell) + sizeOf(sandboxEnv) + sizeOf(c.Env)
	for _, arg := range c.Argv {
		size += len(arg) + perString
	}
	return fits(field, size)
}

// perString is what a string takes beside its bytes: a NUL byte and a pointer.
const perString = 1 + 8

func sizeOf(env map[string]string) int {
	size := 0
	for name, value := range env {
		size += len(name) + len("=") + len(value) + perString
	}
	return size
}

func fits(field Field, size int) error {
	if size > maxStrings {
		return invalidf(field, "arguments and environment take %d bytes together, at most %d are taken: stream them to stdin, or put them into a file", size, maxStrings)
	}
	return nil
}

func validateConfig(c *Config) error {
	if c.Lifetime < 0 {
		return invalidf(FieldConfigLifetime, "%v is negative: leave it 0 for no bound", c.Lifetime)
	}
	for _, f := range []struct {
		field Field
		value string
	}{
		{FieldConfigImage, c.Image}, {FieldConfigUser, c.User}, {FieldConfigNetwork, c.Network},
	} {
		if err := noNUL(f.field, f.value); err != nil {
			return err
		}
	}
	if _, err := egressRules(c.Egress); err != nil {
		return err
	}
	for _, m := range c.Mounts {
		for _, p := range []string{m.Source, m.Target} {
			if !path.IsAbs(p) {
				return invalidf(FieldConfigMounts, "%q is not an absolute path", p)
			}
			if err := noNUL(FieldConfigMounts, p); err != nil {
				return err
			}
		}
	}
	for name := range c.Labels {
		if strings.HasPrefix(name, ownLabels) {
			return invalidf(FieldConfigLabels, "%q begins with %q, which is the Manager's", name, ownLabels)
		}
	}
	if err := validateEnv(FieldConfigEnv, c.Env); err != nil {
		return err
	}
	return fits(FieldConfigEnv, sizeOf(c.Env))
}

func validateEnv(field Field, env map[string]string) error {
	for name, value := range env {
		switch {
		case name == "":
			return invalidf(field, "a variable has no name")
		case strings.Contains(name, "="):
			return invalidf(field, "the name %q contains %q", name, "=")
		}
		if n := len(name) + len("=") + len(value); n > maxString {
			return invalidf(field, "a variable takes %d bytes with its name, at most %d are taken: put the value into a file", n, maxString)
		}
		if err := noNUL(field, name); err != nil {
			return err
		}
		if err := noNUL(field, value); err != nil {
			return err
		}
	}
	return nil
}

func noNUL(field Field, s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return invalidf(field, "contains a NUL byte, which no program can be given")
	}
	return nil
}
