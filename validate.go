package sandbox

import (
	"path"
	"strings"
)

// maxShell is how long shell text may be, in bytes.
const maxShell = 1 << 20

// Validate returns the *InvalidError that a start of c would be refused with, or
// nil. Start does it by itself; it is for who wants to know before there is a
// sandbox.
func (c *Command) Validate() error {
	switch {
	case c.Shell == "" && len(c.Argv) == 0:
		return invalidf("Command", "nothing to run: set Shell or Argv")
	case c.Shell != "" && len(c.Argv) > 0:
		return invalidf("Command", "set either Shell or Argv, not both")
	case len(c.Shell) > maxShell:
		return invalidf("Command.Shell", "%d bytes are too long, at most %d are taken: put the text into a file, or stream it to stdin", len(c.Shell), maxShell)
	case len(c.Argv) > 0 && c.Argv[0] == "":
		return invalidf("Command.Argv", "the program's name is empty")
	case c.Timeout < 0:
		return invalidf("Command.Timeout", "%v is negative: leave it 0 for no bound", c.Timeout)
	case c.Grace < 0:
		return invalidf("Command.Grace", "%v is negative: leave it 0 for no SIGTERM", c.Grace)
	case c.Wait != WaitOutput && c.Wait != WaitExit:
		return invalidf("Command.Wait", "%d is no WaitMode", c.Wait)
	}
	for _, arg := range c.Argv {
		if err := noNUL("Command.Argv", arg); err != nil {
			return err
		}
	}
	for _, f := range []struct{ name, value string }{
		{"Command.Shell", c.Shell}, {"Command.Dir", c.Dir}, {"Command.User", c.User},
	} {
		if err := noNUL(f.name, f.value); err != nil {
			return err
		}
	}
	return validateEnv("Command.Env", c.Env)
}

func validateConfig(c *Config) error {
	if c.Lifetime < 0 {
		return invalidf("Config.Lifetime", "%v is negative: leave it 0 for no bound", c.Lifetime)
	}
	for _, f := range []struct{ name, value string }{
		{"Config.Image", c.Image}, {"Config.User", c.User}, {"Config.Network", c.Network},
	} {
		if err := noNUL(f.name, f.value); err != nil {
			return err
		}
	}
	for _, m := range c.Mounts {
		for _, p := range []string{m.Source, m.Target} {
			if !path.IsAbs(p) {
				return invalidf("Config.Mounts", "%q is not an absolute path", p)
			}
			if err := noNUL("Config.Mounts", p); err != nil {
				return err
			}
		}
	}
	for name := range c.Labels {
		if strings.HasPrefix(name, ownLabels) {
			return invalidf("Config.Labels", "%q begins with %q, which is the Manager's", name, ownLabels)
		}
	}
	return validateEnv("Config.Env", c.Env)
}

func validateEnv(field string, env map[string]string) error {
	for name, value := range env {
		switch {
		case name == "":
			return invalidf(field, "a variable has no name")
		case strings.Contains(name, "="):
			return invalidf(field, "the name %q contains %q", name, "=")
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

func noNUL(field, s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return invalidf(field, "contains a NUL byte, which no program can be given")
	}
	return nil
}
