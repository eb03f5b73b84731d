package backendtest

import (
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// A Machine is a process that a Program acts in, where there is no shell. What
// ends the process does not return: the calling goroutine ends, as by
// runtime.Goexit, and so it does in any method once the process was killed.
//
// Machine gets no further methods in this major version. What later cases need beside
// them is asked for in interfaces of their own, as package io/fs does it, and a case is
// skipped where they are missing.
type Machine interface {
	// Stdin reads like an io.Reader; Stdout and Stderr write all.
	Stdin([]byte) (int, error)
	Stdout([]byte)
	Stderr([]byte)

	Getenv(name string) string
	Sleep(time.Duration)

	Exit(code int)
	Raise(backend.Signal)
	Eat() // dies as by the kernel when memory is short

	// Ignore makes this process and those it spawns from now on ignore the signals.
	Ignore(...backend.Signal)

	// Await returns when the signal has come. It calls ready when one would not end
	// the process any more.
	Await(s backend.Signal, ready func())

	// Terminal returns the size of the process's terminal.
	Terminal() *backend.TerminalSize

	// Spawn starts a background process that runs p, and does not wait for it. Wait
	// waits for all that this one has spawned.
	Spawn(p Program, how How)
	Wait()

	// Append makes a file of the sandbox one byte longer, and Size says how long it
	// is.
	Append(file string)
	Size(file string) int
}

// How is the way in which a background process is started. The zero value keeps
// the output and the process group.
type How struct {
	Redirected bool // its output goes nowhere
	Session    bool // it has a session of its own
}

// Run acts the program in m and returns its exit code. It does not return when a
// step ends the process.
func (p Program) Run(m Machine) int {
	for _, s := range p.steps {
		s.run(m)
	}
	return 0
}
