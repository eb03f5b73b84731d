//go:build unix

package proc

import (
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/cgroup"
)

// A Command is what to start. Exactly one of Shell and Argv is set.
type Command struct {
	Shell string
	Argv  []string
	Dir   string   // absolute
	Env   []string // all of it

	// Terminal says that its files are a terminal, which becomes its controlling
	// one.
	Terminal bool

	// Credential is who it runs as; nil is who the caller is. Only Linux
	// supports it.
	Credential *syscall.Credential

	// Group is the control group that it starts in, and Entrance, if not nil, what keeps files
	// of that open for the next. Only Linux supports them.
	Group    cgroup.Place
	Entrance *cgroup.Entrance
}

// Start starts the command in a session and process group of its own, with files
// as its first descriptors; ^uintptr(0) is a closed one. It returns the command's
// pid, or a *backend.StartError. The caller reaps.
func (c *Command) Start(files []uintptr) (int, error) {
	if hasDescriptor(c.Dir) {
		return 0, &backend.StartError{Reason: backend.BadDirectory, Path: c.Dir}
	}
	path, argv := Shell, c.Argv
	if c.Shell != "" {
		argv = shellArgv(c.Shell)
	} else {
		var err error
		if path, err = c.program(); err != nil {
			return 0, err
		}
	}
	env := c.Env
	if env == nil {
		env = []string{}
	}
	var pid int
	var err error
	sys := &syscall.SysProcAttr{Setsid: true, Setctty: c.Terminal, Credential: c.Credential}
	groupErr := c.Entrance.Start(c.Group, sys, func() error {
		withDefaultSignals(func() {
			pid, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{Dir: c.Dir, Env: env, Files: files, Sys: sys})
		})
		return err
	})
	switch {
	case err != nil:
		return 0, c.explain(path, err)
	case groupErr != nil:
		return 0, &backend.StartError{Reason: backend.CannotStart, Detail: "join the sandbox's control group: " + groupErr.Error()}
	}
	return pid, nil
}

// hasDescriptor reports whether dir leads through a process's descriptors. The
// child has the starter's own until it executes the program.
func hasDescriptor(dir string) bool {
	dir = filepath.Clean(dir) + "/"
	return strings.HasPrefix(dir, "/proc/") && strings.Contains(dir, "/fd/") ||
		strings.HasPrefix(dir, "/dev/fd/")
}

// program returns the path of Argv's program.
func (c *Command) program() (string, error) {
	name := c.Argv[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	var path string
	var err error
	asUser(c.Credential, func() { path, err = c.lookUp(name) })
	return path, err
}

// lookUp searches the command's own PATH as execvp(3) does: what may not be
// executed is passed over, but told when nothing else is found.
func (c *Command) lookUp(name string) (string, error) {
	miss := &backend.StartError{Reason: backend.NotFound, Path: name, Errno: int(syscall.ENOENT)}
	if name == "" {
		return "", miss
	}
	for _, dir := range filepath.SplitList(c.getenv("PATH")) {
		path := filepath.Join(c.absolute(dir), name)
		switch reason := inspect(path); reason {
		case "":
			return path, nil
		case backend.NotExecutable:
			miss = &backend.StartError{Reason: reason, Path: path, Errno: int(syscall.EACCES)}
		}
	}
	return "", miss
}

func (c *Command) getenv(key string) string {
	value := ""
	for _, kv := range c.Env {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			value = v
		}
	}
	return value
}

// absolute returns path as the command sees it from its directory.
func (c *Command) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.Dir, path)
}
