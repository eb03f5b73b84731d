package fake

import (
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// A Process is a running command, or a background process of one, as its
// [Handler] sees it. Its methods are for the goroutine of the handler; when the
// process has been killed they do not return (see Handler).
type Process struct {
	// Stdin is the command's input. A background process has an empty one.
	Stdin io.Reader

	// Stdout and Stderr are the command's output. Like a pipe, each takes 64 KiB
	// that nobody has read yet, and then holds the writer.
	Stdout, Stderr io.Writer

	command    *command
	pid        int
	group      int
	redirected bool
	children   []*Process    // of the handler's goroutine
	dead       chan struct{} // closed when a signal has ended it
	gone       chan struct{} // closed when it is no more

	// Guarded by command.mu.
	signal  backend.Signal // what has ended it
	oom     bool
	ignored []backend.Signal
	caught  map[backend.Signal]chan backend.Signal
	linger  time.Duration

	// Of the handler's goroutine.
	code     int
	returned bool
}

func newProcess(c *command, pid int) *Process {
	p := &Process{
		Stdin:   empty{},
		command: c,
		pid:     pid,
		dead:    make(chan struct{}),
		gone:    make(chan struct{}),
	}
	p.Stdout, p.Stderr = stream{p, 0}, stream{p, 1}
	return p
}

// run runs the handler, whose end is the end of the process.
func (p *Process) run(h Handler) {
	defer func() {
		p.command.mu.Lock()
		linger := p.linger
		p.command.mu.Unlock()
		if isClosed(p.dead) && linger > 0 {
			time.Sleep(linger)
		}
		p.command.remove(p)
	}()
	p.code = h(p)
	p.returned = true
}

// exit says how the process ended, when its handler has.
func (p *Process) exit() backend.Exit {
	p.command.mu.Lock()
	defer p.command.mu.Unlock()
	exit := backend.Exit{Signal: p.signal, OOMKilled: p.oom}
	if n := p.command.oomKills; n > 0 {
		exit.Usage = &backend.Usage{OOMKills: n}
	}
	switch {
	case p.signal != 0:
	case p.returned:
		exit.Code = p.code
	default: // something else ended the goroutine, such as testing's FailNow
		exit.Signal = backend.SIGABRT
	}
	return exit
}

// Command returns what was started, for a background process too.
func (p *Process) Command() *Command { return p.command.cmd }

// Getenv returns the value of an environment variable, or the empty string.
func (p *Process) Getenv(key string) string { return p.command.cmd.Getenv(key) }

// Done is closed when the process has been killed.
func (p *Process) Done() <-chan struct{} { return p.dead }

// Sleep waits for d.
func (p *Process) Sleep(d time.Duration) {
	p.alive()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.dead:
		runtime.Goexit()
	}
}

// Exit ends the process with an exit code, from any depth of its handler.
func (p *Process) Exit(code int) {
	p.alive()
	p.code, p.returned = code, true
	runtime.Goexit()
}

// How is the way in which a background process is started. The zero value is
// that of the shell's &: it keeps the output and is of the same process group.
type How struct {
	Redirected bool // its output goes nowhere, and does not hold the command's
	Session    bool // it has a session and a process group of its own (setsid)
}

// Spawn starts a background process, which may outlive this one. It ignores the
// signals that this one ignores. Its exit code is of no account.
func (p *Process) Spawn(h Handler, how How) {
	p.alive()
	q := newProcess(p.command, p.command.inst.nextPID())
	q.group = p.group
	if how.Session {
		q.group = q.pid
	}
	q.redirected = p.redirected || how.Redirected
	if !p.command.add(p, q) {
		runtime.Goexit()
	}
	p.children = append(p.children, q)
	go q.run(h)
}

// Wait waits until the processes that this one has spawned have ended.
func (p *Process) Wait() {
	for _, q := range p.children {
		select {
		case <-q.gone:
		case <-p.dead:
			runtime.Goexit()
		}
	}
	p.children = slices.Delete(p.children, 0, len(p.children))
}

// alive does not return when the process is dead.
func (p *Process) alive() {
	if isClosed(p.dead) {
		runtime.Goexit()
	}
}

// stream is one end of a process's output.
type stream struct {
	p *Process
	n int
}

func (s stream) Write(b []byte) (int, error) {
	s.p.alive()
	if !s.p.redirected {
		n, printed := s.p.command.print(s.n, b)
		if lost := s.p.command.out.write(n, printed, s.p.dead); lost {
			s.p.command.lose(errLost)
		}
		s.p.alive()
	}
	return len(b), nil
}

// stdin is the command's input as its main process reads it.
type stdin struct{ p *Process }

func (s stdin) Read(b []byte) (int, error) {
	s.p.alive()
	n, err := s.p.command.in.read(b, s.p.dead)
	s.p.alive()
	return n, err
}

// empty is an input without a byte.
type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, io.EOF }
